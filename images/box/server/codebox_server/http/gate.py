"""Authenticates requests to this server."""

from __future__ import annotations

import hmac
import json
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler, stream_request_body

TOKEN_HEADER = "X-CodeBox-Token"


def gate(token: str) -> Rule:
    """Return a rule in front of all others: a 401 for requests without the token."""
    return Rule(_HasNoToken(token), RefusalHandler)


class _HasNoToken(Matcher):
    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Match requests that do not carry the token."""
        given = request.headers.get(TOKEN_HEADER, "").encode("utf-8", "replace")
        return None if hmac.compare_digest(given, self._token) else {}


@stream_request_body
class RefusalHandler(RequestHandler):
    """The response to an unauthenticated request, whose body is not read."""

    def check_xsrf_cookie(self) -> None:
        """Do nothing: the request is refused anyway."""

    def prepare(self) -> None:
        """Respond with 401, whatever the request is."""
        self.set_status(401)
        self.set_header("Content-Type", "application/json")
        self.set_header("Connection", "close")
        self.finish(json.dumps({"code": "unauthorized", "detail": f"{TOKEN_HEADER} is missing or wrong"}))

    def data_received(self, chunk: bytes) -> None:
        """Do nothing: the connection ends."""
