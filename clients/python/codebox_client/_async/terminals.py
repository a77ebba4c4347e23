"""Terminals of a box."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from .._call import Call, path_of
from .._sockets import AsyncSocket, async_connect
from ..errors import CodeBoxError
from ..models import Terminal
from .transport import AsyncTransport


class AsyncTerminalConnection:
    """
    A terminal to which this client is attached. Iterating yields its output as bytes, until its shell ends.

    Leaving it keeps the shell running: attach again by its ``id``. ``replayed_bytes`` of the output are earlier output;
    ``exit_code`` and ``signal`` say how the shell has ended.
    """

    def __init__(self, socket: AsyncSocket, hello: dict[str, Any]) -> None:
        self._socket = socket
        self.id: str = hello["terminal"]
        self.cols: int = hello["cols"]
        self.rows: int = hello["rows"]
        self.replayed_bytes: int = hello["replayedBytes"]
        self.exit_code: int | None = None
        self.signal: str | None = None

    async def write(self, keys: str | bytes) -> None:
        """Sends keystrokes."""
        await self._socket.send(keys.encode() if isinstance(keys, str) else keys)

    async def resize(self, cols: int, rows: int) -> None:
        """Changes the size of the screen."""
        await self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    async def close(self) -> None:
        """Closes the connection; the shell runs on."""
        await self._socket.close()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        while True:
            message = await self._socket.receive()
            if isinstance(message, bytes):
                yield message
                continue
            news = _parse(message)
            if news["type"] == "exit":
                self.exit_code, self.signal = news.get("exitCode"), news.get("signal")
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncTerminals:
    """Interactive shells of a box."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        self._transport = transport
        self._box = box
        self._path = path_of("boxes", box, "terminals")

    async def open(
        self,
        terminal: str | None = None,
        *,
        cols: int | None = None,
        rows: int | None = None,
        cwd: str | None = None,
    ) -> AsyncTerminalConnection:
        """Starts a terminal, or attaches to a running one."""
        given = {"terminal": terminal, "cols": cols, "rows": rows, "cwd": cwd}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        path = f"{path_of('boxes', self._box, 'terminal')}?{query}"
        socket = await async_connect(self._transport.url + path, self._transport.headers)
        try:
            return AsyncTerminalConnection(socket, _parse(await socket.receive()))
        except BaseException:
            await socket.close()
            raise

    async def delete(self, terminal: str) -> None:
        """Ends a terminal with everything that runs in it."""
        await self._transport.done(Call("DELETE", f"{self._path}/{terminal}"))

    def list(self) -> AsyncIterator[Terminal]:
        """The running terminals, oldest first."""
        return self._transport.items(Terminal, Call("GET", self._path))


def _parse(message: str | bytes) -> dict[str, Any]:
    news: dict[str, Any] = json.loads(message)
    if news["type"] == "error":
        raise CodeBoxError(news["code"], news["detail"])
    return news
