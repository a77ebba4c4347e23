# Generated from _async/transport.py by generate.py.
"""Sends requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from .._call import USUAL_SECONDS, Attempts, Call
from .._model import Model
from .._worlds import pause
from ..errors import CodeBoxError, error_of

M = TypeVar("M", bound=Model)

_CONNECT_SECONDS = 10.0


class Transport:
    """Sends requests to the gateway, each with a deadline, and raises a CodeBoxError for each refusal."""

    def __init__(self, url: str, key: str | None, retries: int, http: httpx.Client | None) -> None:
        self.url = url.rstrip("/")
        self.headers = {"authorization": f"Bearer {key}"} if key is not None else {}
        self._retries = retries
        self._is_own = http is None
        self._http = http or httpx.Client(limits=httpx.Limits(max_connections=None))

    def close(self) -> None:
        """Closes the connections, unless the caller has brought them along."""
        if self._is_own:
            self._http.close()

    def open(self, call: Call) -> httpx.Response:
        """Returns a response whose body is not read yet."""
        return self._send(call, stream=True)

    def read(self, call: Call) -> bytes:
        """Returns the body of the response."""
        return (self._send(call, stream=False)).content

    def done(self, call: Call) -> None:
        """Returns once the request has succeeded."""
        self._send(call, stream=False)

    def json(self, model: type[M], call: Call) -> M:
        """Returns the JSON of the response."""
        body = self.read(call)
        try:
            return model.model_validate_json(body)
        except ValidationError as cause:
            raise CodeBoxError("internal", "The gateway sent an unexpected response.") from cause

    def items(self, model: type[M], call: Call) -> Iterator[M]:
        """Yields the items of a list, page after page."""
        while True:
            try:
                page: dict[str, Any] = json.loads(self.read(call))
                items = [model.model_validate(item) for item in page["items"]]
                cursor: str | None = page.get("nextCursor")
            except (ValueError, KeyError, TypeError) as cause:
                raise CodeBoxError("internal", "The gateway sent an unexpected page.") from cause
            for item in items:
                yield item
            if cursor is None:
                return
            call = replace(call, query={**call.query, "cursor": cursor})

    def _send(self, call: Call, *, stream: bool) -> httpx.Response:
        attempts = Attempts(call, self._retries)
        while True:
            seconds = attempts.begin()
            try:
                return self._once(call, seconds, stream)
            except CodeBoxError as error:
                if attempts.has_deleted(error):
                    return httpx.Response(204)
                seconds = attempts.pause_after(error)
            pause(seconds)

    def _once(self, call: Call, seconds: float, stream: bool) -> httpx.Response:
        request = self._http.build_request(
            call.method,
            self.url + call.path,
            params={name: value for name, value in call.query.items() if value is not None},
            headers={**self.headers, **{name: value for name, value in call.headers.items() if value is not None}},
            json=call.json,
            content=call.content() if call.content else None,
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
        )
        try:
            response = self._http.send(request, stream=True)
            if stream and response.status_code < 400:
                # From here on only the silence counts, which is shorter in a stream: the gateway pings.
                request.extensions["timeout"]["read"] = USUAL_SECONDS
            else:
                response.read()
        except (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout) as cause:
            raise CodeBoxError("timeout", f"There was no response within {seconds:.0f} seconds.") from cause
        except httpx.TransportError as cause:
            raise CodeBoxError("unavailable", "The gateway cannot be reached, or its connection broke.") from cause
        if response.status_code >= 400:
            raise error_of(response.status_code, response.headers, response.content)
        return response
