"""Authenticates requests to this server, and proves the server's own identity."""

from __future__ import annotations

import hmac
import json
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, PathMatches, Rule
from tornado.web import RequestHandler, stream_request_body

TOKEN_HEADER = "X-CodeBox-Token"
_CHALLENGE_MAX = 128


def gate(instance: str, token: str) -> list[Rule]:
    """Return rules in front of all others: the proof of this server's identity, and a 401 for requests without the
    token.
    """
    return [
        Rule(PathMatches("/codebox/identity"), IdentityHandler, {"instance": instance, "token": token}),
        Rule(_HasNoToken(token), RefusalHandler),
    ]


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


@stream_request_body
class IdentityHandler(RequestHandler):
    """Proves that this server has the token of its instance, before anybody sends the token to it."""

    def initialize(self, instance: str, token: str) -> None:
        """Called by Tornado with the identity."""
        self._instance, self._token = instance, token

    def data_received(self, chunk: bytes) -> None:
        """Do nothing: the request has no body."""

    def get(self) -> None:
        """Send `{instance, proof}`: `proof` is the HMAC-SHA256 of `?challenge=` with the token as key, as hexadecimal
        digits.
        """
        challenge = self.get_query_argument("challenge", "")[:_CHALLENGE_MAX]
        proof = hmac.digest(self._token.encode(), challenge.encode("utf-8", "replace"), "sha256").hex()
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"instance": self._instance, "proof": proof}))
