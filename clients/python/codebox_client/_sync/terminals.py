# Generated from _async/terminals.py by generate.py.
"""Terminals of a box."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from .._call import Call, path_of
from .._sockets import Socket, connect
from ..errors import CodeBoxError
from ..models import Terminal
from .transport import Transport


class TerminalConnection:
    """
    A terminal to which this client is attached. Iterating yields its output as bytes, until its shell ends.

    Leaving it keeps the shell running: attach again by its ``id``. ``replayed_bytes`` of the output are earlier output;
    ``exit_code`` and ``signal`` say how the shell has ended.
    """

    def __init__(self, socket: Socket, hello: dict[str, Any]) -> None:
        self._socket = socket
        self.id: str = hello["terminal"]
        self.cols: int = hello["cols"]
        self.rows: int = hello["rows"]
        self.replayed_bytes: int = hello["replayedBytes"]
        self.exit_code: int | None = None
        self.signal: str | None = None

    def write(self, keys: str | bytes) -> None:
        """Sends keystrokes."""
        self._socket.send(keys.encode() if isinstance(keys, str) else keys)

    def resize(self, cols: int, rows: int) -> None:
        """Changes the size of the screen."""
        self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    def close(self) -> None:
        """Closes the connection; the shell runs on."""
        self._socket.close()

    def __iter__(self) -> Generator[bytes]:
        while True:
            message = self._socket.receive()
            if isinstance(message, bytes):
                yield message
                continue
            news = _parse(message)
            if news["type"] == "exit":
                self.exit_code, self.signal = news.get("exitCode"), news.get("signal")
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Terminals:
    """Interactive shells of a box."""

    def __init__(self, transport: Transport, box: str) -> None:
        self._transport = transport
        self._box = box
        self._path = path_of("boxes", box, "terminals")

    def open(
        self,
        terminal: str | None = None,
        *,
        cols: int | None = None,
        rows: int | None = None,
        cwd: str | None = None,
    ) -> TerminalConnection:
        """Starts a terminal, or attaches to a running one."""
        given = {"terminal": terminal, "cols": cols, "rows": rows, "cwd": cwd}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        path = f"{path_of('boxes', self._box, 'terminal')}?{query}"
        socket = connect(self._transport.url + path, self._transport.headers)
        try:
            return TerminalConnection(socket, _parse(socket.receive()))
        except BaseException:
            socket.close()
            raise

    def delete(self, terminal: str) -> None:
        """Ends a terminal with everything that runs in it."""
        self._transport.done(Call("DELETE", f"{self._path}/{terminal}"))

    def list(self) -> Iterator[Terminal]:
        """The running terminals, oldest first."""
        return self._transport.items(Terminal, Call("GET", self._path))


def _parse(message: str | bytes) -> dict[str, Any]:
    news: dict[str, Any] = json.loads(message)
    if news["type"] == "error":
        raise CodeBoxError(news["code"], news["detail"])
    return news
