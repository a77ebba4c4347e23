"""A shell on a pseudo terminal that clients attach to and leave. It lives until its shell ends or is ended."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codebox_server.bounds import (
    SCREEN_BEHIND_BYTES,
    TERMINAL_BREATH_SECONDS,
    TERMINAL_INPUT_BYTES,
    TERMINAL_NUDGE_SECONDS,
    TERMINAL_READ_BYTES,
    TERMINAL_SEND_BYTES,
)
from codebox_server.errors import BoxError, full
from codebox_server.system.process import Death, place_below, reap, watch_exit
from codebox_server.terminals.screen import Screen
from codebox_server.terminals.session import MARK, end_session

_SHELL_FILE = str(Path(__file__).with_name("shell.bash"))


@dataclass(frozen=True)
class TerminalRequest:
    """The terminal to start: a shell in the folder `cwd` with the variables `env` on a screen of this size."""

    id: str
    cwd: str
    cols: int
    rows: int
    env: dict[str, str] = field(default_factory=dict)


class Reader:
    """The position of one client in the output."""

    def __init__(self, position: int, lead_in: bytes) -> None:
        self.position = position
        self.lead_in = lead_in
        self.news = asyncio.Event()


class Terminal:
    """A running or ended shell. Output is read only as fast as the slowest attached client takes it."""

    def __init__(self, request: TerminalRequest, on_end: Callable[[], None]) -> None:
        self.request = request
        self.pid = 0
        self.cols, self.rows = request.cols, request.rows
        self.death: Death | None = None
        self._screen = Screen()
        self._readers: set[Reader] = set()
        self._loop = asyncio.get_running_loop()
        self._created_at = time.time()
        self._fd = -1
        self._reading = False
        self._backlog = bytearray()
        self._taken = asyncio.Event()
        self._on_end = on_end
        self._ended = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    def start(self, env: dict[str, str]) -> None:
        """Start the shell. Raises invalid_request when it cannot be started, too_many_requests in a full box, and on a
        host without free pseudo terminals."""
        request = self.request
        try:
            self._fd, slave = os.openpty()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise BoxError("too_many_requests", "the host has no pseudo terminal left") from error
        os.set_blocking(self._fd, False)
        termios.tcsetwinsize(slave, (self.rows, self.cols))
        names = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        try:
            # setsid makes it the terminal of a session: our own code must not run between fork and exec.
            process = subprocess.Popen(
                ["setsid", "-c", "bash", "--rcfile", _SHELL_FILE, "-i"],
                cwd=request.cwd,
                env={**env, **names, **request.env, MARK: request.id},
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        except (OSError, ValueError) as error:
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise full() from error
            raise BoxError("invalid_request", f"the terminal cannot be started: {error}") from error
        finally:
            os.close(slave)
        self.pid = process.pid
        place_below(self.pid)
        self._listen()
        watch_exit(self.pid, lambda: self._on_exit(process))

    async def end(self) -> None:
        """End the shell with everything that it started, and wait for that."""
        await end_session(self.pid, self.request.id)
        await self._ended.wait()

    def resize(self, cols: int, rows: int) -> None:
        """Set the size of the screen and notify its programs."""
        self.cols, self.rows = cols, rows
        if self._fd >= 0:
            termios.tcsetwinsize(self._fd, (rows, cols))

    async def write(self, data: bytes) -> None:
        """Write to the keyboard. Waits while much input is unread."""
        if self._fd < 0:
            return
        self._backlog += data
        self._feed()
        while len(self._backlog) > TERMINAL_INPUT_BYTES:
            self._taken.clear()
            await self._taken.wait()

    def drop_input(self) -> int:
        """Drop the input that nothing reads; return the number of bytes."""
        dropped = len(self._backlog)
        self._backlog.clear()
        self._feed()
        return dropped

    def attach(self) -> tuple[Reader, int]:
        """Return a reader of the kept output and everything that follows, and how many bytes it is behind."""
        position = self._screen.tail()
        reader = Reader(position, self._screen.lead_in(position))
        self._readers.add(reader)
        if self._screen.full_screen:
            self._nudge()
        return reader, len(reader.lead_in) + self._screen.end - position

    def detach(self, reader: Reader) -> None:
        """The client has left and no longer holds anybody back."""
        self._readers.discard(reader)
        self._listen()

    async def output(self, reader: Reader) -> AsyncIterator[bytes]:
        """Yield pieces of output until the shell has ended. A piece counts as taken when the next one is requested."""
        if reader.lead_in:
            yield reader.lead_in
        while True:
            piece = self._screen.read(reader.position, TERMINAL_SEND_BYTES)
            if piece:
                yield piece
                reader.position += len(piece)
                self._listen()
            elif self._fd < 0:
                return
            else:
                reader.news.clear()
                await reader.news.wait()

    def to_json(self) -> dict[str, Any]:
        """Return the terminal as the API represents it."""
        return {
            "id": self.request.id,
            "pid": self.pid,
            "cwd": self.request.cwd,
            "cols": self.cols,
            "rows": self.rows,
            "clients": len(self._readers),
            "createdAt": _instant(self._created_at),
        }

    def _nudge(self) -> None:
        # The kept output of a full-screen program is incremental. The program redraws everything when the size changes.
        if self.rows > 1 and self._fd >= 0:
            termios.tcsetwinsize(self._fd, (self.rows - 1, self.cols))
            self._loop.call_later(TERMINAL_NUDGE_SECONDS, lambda: self.resize(self.cols, self.rows))

    def _behind(self) -> int:
        return max((self._screen.end - reader.position for reader in self._readers), default=0)

    def _listen(self) -> None:
        if not self._reading and self._fd >= 0 and self._behind() < SCREEN_BEHIND_BYTES:
            self._reading = True
            self._loop.add_reader(self._fd, self._read)

    def _rest(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _read(self) -> None:
        size = 0
        while size < TERMINAL_READ_BYTES:
            data = self._read_piece()
            if not data:
                break
            size += len(data)
            self._screen.add(data)
        for reader in self._readers:
            reader.news.set()
        if size >= TERMINAL_READ_BYTES:
            # A flood: let others have their turn.
            self._rest()
            self._loop.call_later(TERMINAL_BREATH_SECONDS, self._listen)
        elif self._behind() >= SCREEN_BEHIND_BYTES:
            self._rest()

    def _read_piece(self) -> bytes:
        try:
            return os.read(self._fd, TERMINAL_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            # No process has the terminal open any more: the end of the shell reports its end.
            self._rest()
            return b""

    def _feed(self) -> None:
        if self._fd < 0:
            return
        try:
            while self._backlog:
                del self._backlog[: os.write(self._fd, self._backlog)]
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._feed)
        except OSError:
            # No process has the terminal open any more.
            self._backlog.clear()
        if not self._backlog:
            self._loop.remove_writer(self._fd)
        self._taken.set()

    def _on_exit(self, process: subprocess.Popen[bytes]) -> None:
        self.death = reap(self.pid) or Death(-9)
        process.returncode = self.death.returncode
        self._ending = asyncio.ensure_future(self._conclude())

    async def _conclude(self) -> None:
        await end_session(self.pid, self.request.id)
        # Its last output is still in the terminal, at most a few KiB.
        self._read()
        self._rest()
        self._loop.remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._backlog.clear()
        self._taken.set()
        for reader in self._readers:
            reader.news.set()
        self._on_end()
        self._ended.set()


def _instant(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
