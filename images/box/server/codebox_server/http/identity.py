"""Who may ask this server, and the proof that it is the one that was meant."""

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
    """Rules that stand before all others: the proof of this server's identity, and a 401 for what has no token."""
    return [
        Rule(PathMatches("/codebox/identity"), IdentityHandler, {"instance": instance, "token": token}),
        Rule(_HasNoToken(token), RefusalHandler),
    ]


class _HasNoToken(Matcher):
    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Match, with nothing more to tell, what does not carry the token."""
        given = request.headers.get(TOKEN_HEADER, "").encode("utf-8", "replace")
        return None if hmac.compare_digest(given, self._token) else {}


@stream_request_body
class RefusalHandler(RequestHandler):
    """The answer to a stranger, of whose body nothing is read."""

    def check_xsrf_cookie(self) -> None:
        """Nothing: what is asked for is refused anyway."""

    def prepare(self) -> None:
        """401, whatever was asked for."""
        self.set_status(401)
        self.set_header("Content-Type", "application/json")
        self.set_header("Connection", "close")
        self.finish(json.dumps({"code": "unauthorized", "detail": f"{TOKEN_HEADER} is missing or wrong"}))

    def data_received(self, chunk: bytes) -> None:
        """Nothing: the connection ends."""


@stream_request_body
class IdentityHandler(RequestHandler):
    """Shows that this server has the token of its instance, before anybody sends it."""

    def initialize(self, instance: str, token: str) -> None:
        """Called by Tornado with the identity."""
        self._instance, self._token = instance, token

    def data_received(self, chunk: bytes) -> None:
        """Nothing: the question has no body."""

    def get(self) -> None:
        """`{instance, proof}`: `proof` is the HMAC-SHA256 of `?challenge=` by the token, as hexadecimal digits."""
        challenge = self.get_query_argument("challenge", "")[:_CHALLENGE_MAX]
        proof = hmac.digest(self._token.encode(), challenge.encode("utf-8", "replace"), "sha256").hex()
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"instance": self._instance, "proof": proof}))
