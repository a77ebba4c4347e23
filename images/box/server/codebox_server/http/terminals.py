"""`/codebox/terminals`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

from tornado import websocket

from codebox_server.bounds import (
    TERMINAL_INPUT_SECONDS,
    TERMINAL_SIDE_MAX,
    TRANSFER_STALL_SECONDS,
)
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, base64_field, check_id, env_field, number_field, optional_text
from codebox_server.terminals.terminal import Reader, Terminal, TerminalRequest

_log = logging.getLogger(__name__)


class TerminalsHandler(BoxHandler):
    """The list of terminals."""

    async def get(self) -> None:
        """Send `{items:[…]}`, oldest first."""
        self.send_json({"items": [terminal.to_json() for terminal in self.box.terminals.list()]})


class TerminalHandler(BoxHandler):
    """One terminal."""

    async def put(self, terminal_id: str) -> None:
        """Start a shell from `{cols, rows, cwd?, env?}`; 201."""
        fields = self.body_fields({"cols", "rows", "cwd", "env"})
        request = TerminalRequest(
            id=check_id(terminal_id),
            cwd=self.box.commands.folder(optional_text(fields, "cwd")),
            cols=number_field(fields, "cols", 1, TERMINAL_SIDE_MAX),
            rows=number_field(fields, "rows", 1, TERMINAL_SIDE_MAX),
            env=env_field(fields),
        )

        async def start() -> Terminal:
            return self.box.terminals.start(request)

        self.send_json((await self.box.crowd.making_room(start)).to_json(), 201)

    async def patch(self, terminal_id: str) -> None:
        """Resize the screen to `{cols, rows}`, or type `{base64}`; 204. Raises too_many_requests for unread input."""
        terminal = self.box.terminals.get(terminal_id)
        fields = self.body_fields({"cols", "rows", "base64"})
        if "cols" in fields or "rows" in fields:
            _resize(terminal, fields)
        keys = base64_field(fields, "base64")
        if keys and (dropped := await _type(terminal, keys)):
            raise BoxError("too_many_requests", _unread(dropped))
        self.send_nothing()

    async def get(self, terminal_id: str) -> None:
        """Send the current state of the terminal."""
        self.send_json(self.box.terminals.get(terminal_id).to_json())

    async def delete(self, terminal_id: str) -> None:
        """End its shell and everything in it; 204 when that is done."""
        await self.box.terminals.get(terminal_id).end()
        self.send_nothing()


class TerminalSocketHandler(BoxHandler, websocket.WebSocketHandler):
    """The WebSocket of one client: bytes both ways in binary frames, JSON about the terminal in text frames."""

    terminal: Terminal
    reader: Reader
    size: dict[str, int]
    sending: asyncio.Task[None] | None = None

    async def get(self, terminal_id: str) -> None:
        """Become a WebSocket, or respond with 404. `cols` and `rows` resize the screen first."""
        self.terminal = self.box.terminals.get(terminal_id)
        self.size = {name: self._side(name) for name in ("cols", "rows") if self.get_query_argument(name, None)}
        await websocket.WebSocketHandler.get(self)

    def check_origin(self, origin: str) -> bool:
        """Accept any origin: only the gateway reaches this socket."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Send the end of the earlier output, then what follows."""
        if self.size:
            _resize(self.terminal, self.size)
        self.reader, replayed = self.terminal.attach()
        self.sending = asyncio.ensure_future(self._send(replayed))

    async def on_message(self, message: str | bytes) -> None:
        """Accept input, or `{type:"resize", cols, rows}`. The next message is read once this one is written."""
        if isinstance(message, str):
            self._control(message)
            return
        if dropped := await _type(self.terminal, message):
            await self._send_control({"type": "error", "code": "too_many_requests", "detail": _unread(dropped)})

    def on_close(self) -> None:
        """Detach; the terminal continues without this client."""
        if self.sending is not None:
            self.sending.cancel()
            self.terminal.detach(self.reader)

    def _control(self, message: str) -> None:
        fields: Any = json.loads(message)
        if fields.get("type") != "resize":
            raise BoxError("invalid_request", "unknown type", "/type")
        _resize(self.terminal, fields)

    def _side(self, name: str) -> int:
        value = self.get_query_argument(name)
        if not value.isascii() or not value.isdigit() or len(value) > 4 or not 1 <= int(value) <= TERMINAL_SIDE_MAX:
            raise BoxError("invalid_request", f"{name} is not a valid screen size", f"/{name}")
        return int(value)

    async def _send(self, replayed: int) -> None:
        terminal = self.terminal
        try:
            ready = {"type": "ready", "cols": terminal.cols, "rows": terminal.rows, "replayedBytes": replayed}
            await self._send_control(ready)
            async for piece in terminal.output(self.reader):
                await asyncio.wait_for(self.write_message(piece, binary=True), TRANSFER_STALL_SECONDS)
            if terminal.death is not None:
                death = terminal.death
                await self._send_control({"type": "exit", "exitCode": death.exit_code, "signal": death.signal})
            self.close(1000)
        except TimeoutError:
            self.close(1013, "the reader is too slow")
        except websocket.WebSocketClosedError:
            # The client has left; the terminal continues.
            return
        except Exception:
            _log.exception("the socket of a terminal failed")
            self.close(1011)

    async def _send_control(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(websocket.WebSocketClosedError):
            await self.write_message(json.dumps(message))


def _resize(terminal: Terminal, fields: dict[str, Any]) -> None:
    cols = number_field(fields, "cols", 1, TERMINAL_SIDE_MAX)
    terminal.resize(cols, number_field(fields, "rows", 1, TERMINAL_SIDE_MAX))


async def _type(terminal: Terminal, keys: bytes) -> int:
    """Write to a terminal. Return how many bytes of input were dropped because nothing reads them."""
    try:
        await asyncio.wait_for(terminal.write(keys), TERMINAL_INPUT_SECONDS)
    except TimeoutError:
        return terminal.drop_input()
    return 0


def _unread(dropped: int) -> str:
    return f"nothing in the terminal reads its input: {dropped} bytes were dropped"
