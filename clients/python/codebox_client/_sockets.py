"""WebSockets, in coroutines and in threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection as CoroutineConnection
from websockets.asyncio.client import connect as connect_in_coroutine
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection as ThreadConnection
from websockets.sync.client import connect as connect_in_thread

from .errors import CodeBoxError, error_of

_MAX_BYTES = 4 * 1024 * 1024
# A resting box is restored first.
_OPEN_SECONDS = 120.0
_FAILURES = (WebSocketException, OSError, TimeoutError)


class AsyncSocket:
    """A WebSocket in coroutines."""

    def __init__(self, connection: CoroutineConnection) -> None:
        self._connection = connection

    async def send(self, message: str | bytes) -> None:
        """Raises ``unavailable`` when the connection has ended."""
        try:
            await self._connection.send(message)
        except ConnectionClosed as cause:
            raise _ended() from cause

    async def receive(self) -> str | bytes:
        """Raises ``unavailable`` when the connection has ended."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as cause:
            raise _ended() from cause

    async def close(self) -> None:
        """Closes the connection."""
        await self._connection.close()


class Socket:
    """A WebSocket in threads."""

    def __init__(self, connection: ThreadConnection) -> None:
        self._connection = connection

    def send(self, message: str | bytes) -> None:
        """Raises ``unavailable`` when the connection has ended."""
        try:
            self._connection.send(message)
        except ConnectionClosed as cause:
            raise _ended() from cause

    def receive(self) -> str | bytes:
        """Raises ``unavailable`` when the connection has ended."""
        try:
            return self._connection.recv()
        except ConnectionClosed as cause:
            raise _ended() from cause

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


async def async_connect(url: str, headers: Mapping[str, str]) -> AsyncSocket:
    """Connects to an http(s) URL."""
    try:
        return AsyncSocket(await connect_in_coroutine(**_options(url, headers)))
    except _FAILURES as error:
        raise _refusal(error) from error


def connect(url: str, headers: Mapping[str, str]) -> Socket:
    """Connects to an http(s) URL."""
    try:
        return Socket(connect_in_thread(**_options(url, headers)))
    except _FAILURES as error:
        raise _refusal(error) from error


def _options(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "uri": f"ws{url.removeprefix('http')}",
        "additional_headers": dict(headers),
        "max_size": _MAX_BYTES,
        "open_timeout": _OPEN_SECONDS,
        "compression": None,
    }


def _refusal(error: Exception) -> CodeBoxError:
    if isinstance(error, InvalidStatus):
        response = error.response
        headers = {name.lower(): value for name, value in response.headers.raw_items()}
        return error_of(response.status_code, headers, bytes(response.body or b""))
    return CodeBoxError("unavailable", "The gateway cannot be reached, or its connection broke.")


def _ended() -> CodeBoxError:
    return CodeBoxError("unavailable", "The connection has ended.")
