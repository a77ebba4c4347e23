"""Shared by all handlers of this package: errors as JSON, strict bodies, event streams."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
from typing import Any

from tornado import iostream, web
from tornado.http1connection import HTTP1Connection

from codebox_server.bounds import ENV_BYTES, HEAD_SECONDS, JSON_BODY_BYTES, READ_BATCH_BYTES
from codebox_server.box import Box
from codebox_server.errors import BoxError, from_os_error
from codebox_server.http.trace import join_trace, trace_id
from codebox_server.runs.journal import Journal

_log = logging.getLogger(__name__)
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


class BoxHandler(web.RequestHandler):
    """A plain Tornado handler; Jupyter's own base class adds a login and headers that are useless on this socket."""

    box: Box

    def initialize(self, box: Box) -> None:
        """Called by Tornado with the composition."""
        self.box = box

    @property
    def connection(self) -> HTTP1Connection:
        """The connection of the request."""
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        return connection

    def check_xsrf_cookie(self) -> None:
        """Do nothing: no browser reaches this socket."""

    def set_default_headers(self) -> None:
        """Forbid caching of responses."""
        self.set_header("Cache-Control", "no-store")

    def compute_etag(self) -> None:
        """Return None: Tornado would hash every body."""

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log only failures that are bugs of ours."""
        if not isinstance(value, (BoxError, OSError, web.HTTPError, iostream.StreamClosedError)):
            described = (self.request.method, self.request.path[:200], trace_id(self.request))
            _log.error("%s %s failed, trace %s", *described, exc_info=(typ, value, tb))

    def flush(self, include_footers: bool = False) -> asyncio.Future[None]:
        """Add the trace to the head of the response."""
        if not self._headers_written:
            join_trace(self.request, self._headers)
        return super().flush(include_footers)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write the JSON body of an error."""
        raised = kwargs.get("exc_info", (None, None, None))[1]
        error = translate(raised, status_code)
        self.set_status(error.status if isinstance(raised, (BoxError, OSError)) else status_code)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(error.to_json()))

    def send_json(self, body: Any, status: int = 200) -> None:
        """Respond with JSON."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))

    def send_nothing(self, status: int = 204) -> None:
        """Respond without a body."""
        self.set_status(status)
        self.finish()

    def body_fields(self, allowed: set[str]) -> dict[str, Any]:
        """Return the JSON object in the body. Unknown keys, other types and broken JSON raise invalid_request."""
        return json_fields(self.request.body, allowed)

    def number_argument(self, name: str, default: int, most: int) -> int:
        """Return an integer from 1 to `most` from the query."""
        value = self.get_query_argument(name, str(default))
        if not value.isascii() or not value.isdigit() or len(value) > 15 or not 1 <= int(value) <= most:
            raise BoxError("invalid_request", f"{name} has to be from 1 to {most}", f"/query/{name}")
        return int(value)

    def after(self) -> int:
        """Return the `after` parameter of an event stream."""
        value = self.get_query_argument("after", "0")
        if not value.isascii() or not value.isdigit() or len(value) > 12:
            raise BoxError("invalid_request", "after is not a number", "/after")
        return int(value)

    async def send_events(self, journal: Journal, after: int) -> None:
        """Stream a journal as NDJSON until its end. A client that disconnects ends only this stream."""
        self.set_header("Content-Type", "application/x-ndjson")
        # A queued run has no events yet, and the early head says that it was accepted. A short run is faster than this,
        # and its head is sent with its events in one write.
        early = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._send_head)
        try:
            async for batch in journal.read(after):
                self.write(batch)
                # The last batch is sent with the end of the response, in one write.
                if not journal.ended or len(batch) > READ_BATCH_BYTES // 2:
                    await self.flush()
        except iostream.StreamClosedError:
            # The reader has gone; the run continues and can be read again.
            return
        finally:
            early.cancel()
        self.finish()

    def _send_head(self) -> None:
        if not self._headers_written:
            self.flush().add_done_callback(forget_closed)


def forget_closed(sent: asyncio.Future[None]) -> None:
    """Ignore that a reader has gone: the next write notices."""
    if not sent.cancelled():
        sent.exception()


def translate(raised: BaseException | None, status: int = 500) -> BoxError:
    """Return the error that a response reports for an exception, or for a status without one."""
    if isinstance(raised, BoxError):
        return raised
    if isinstance(raised, OSError):
        return from_os_error(raised)
    if status == 404:
        return BoxError("not_found", "no such resource")
    if 400 <= status < 500:
        return BoxError("invalid_request", getattr(raised, "log_message", None) or f"refused with {status}")
    return BoxError("internal", "the box server failed; see its log")


def check_id(value: str) -> str:
    """Check an id of the gateway: letters, digits and `_.:-`, at most 200."""
    if not _ID.fullmatch(value):
        raise BoxError("invalid_request", "the id has characters that are not allowed")
    return value


def json_fields(body: bytes, allowed: set[str]) -> dict[str, Any]:
    """Return a JSON object. Unknown keys, other types and broken JSON raise invalid_request."""
    if len(body) > JSON_BODY_BYTES:
        raise BoxError("too_large", f"a body has at most {JSON_BODY_BYTES} bytes")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BoxError("invalid_request", "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise BoxError("invalid_request", "the body is not a JSON object")
    for name in fields:
        if name not in allowed:
            raise BoxError("invalid_request", "unknown field", "/" + name[:100])
    return fields


def text_field(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a string field; without a default it is required."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise BoxError("invalid_request", f"{name} has to be a string", f"/{name}")
    return value


def optional_text(fields: dict[str, Any], name: str) -> str | None:
    """Return a string field that may be absent or null."""
    return None if fields.get(name) is None else text_field(fields, name)


def number_field(fields: dict[str, Any], name: str, low: int, high: int) -> int:
    """Return an integer within its limits."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BoxError("invalid_request", f"{name} has to be a whole number from {low} to {high}", f"/{name}")
    return value


def flag_field(fields: dict[str, Any], name: str) -> bool:
    """Return true or false, false when missing."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise BoxError("invalid_request", f"{name} has to be true or false", f"/{name}")
    return value


def optional_number(fields: dict[str, Any], name: str, low: int, high: int) -> int | None:
    """Return an integer within its limits that may be absent or null."""
    return None if fields.get(name) is None else number_field(fields, name, low, high)


def base64_field(fields: dict[str, Any], name: str) -> bytes:
    """Return the bytes of a base64 string, none when missing."""
    try:
        return base64.b64decode(text_field(fields, name, ""), validate=True)
    except (binascii.Error, ValueError):
        raise BoxError("invalid_request", "not base64", f"/{name}") from None


def env_field(fields: dict[str, Any], name: str = "env") -> dict[str, str]:
    """Return an environment: names to strings without NUL, within a limit on size."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BoxError("invalid_request", f"{name} has to be an object of strings", f"/{name}")
    for key, item in value.items():
        if not _ENV_NAME.fullmatch(key):
            raise BoxError("invalid_request", "not a valid name of a variable", f"/{name}/{key[:100]}")
        if not isinstance(item, str) or "\0" in item:
            raise BoxError("invalid_request", "a variable has to be a string without NUL", f"/{name}/{key}")
    if sum(len(key) + len(item) for key, item in value.items()) > ENV_BYTES:
        raise BoxError("too_large", f"an environment has at most {ENV_BYTES} characters", f"/{name}")
    return value
