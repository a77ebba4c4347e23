"""The running terminals of the box, by id."""

from __future__ import annotations

from collections.abc import Callable

from codebox_server.bounds import TERMINALS
from codebox_server.errors import BoxError
from codebox_server.terminals.terminal import Terminal, TerminalRequest


class Terminals:
    """Starts, finds and ends terminals. A terminal whose shell has ended is dropped."""

    def __init__(self, env: Callable[[], dict[str, str]]) -> None:
        self._env = env
        self._running: dict[str, Terminal] = {}

    def start(self, request: TerminalRequest) -> Terminal:
        """Start a shell. Raises conflict (id known), invalid_request (cannot start), too_many_requests."""
        if request.id in self._running:
            raise BoxError("conflict", "a terminal with this id exists")
        if len(self._running) >= TERMINALS:
            raise BoxError("too_many_requests", f"a box has at most {TERMINALS} terminals: end one first")
        terminal = Terminal(request, lambda: self._forget(request.id))
        terminal.start(self._env())
        self._running[request.id] = terminal
        return terminal

    def list(self) -> list[Terminal]:
        """Return every running terminal, oldest first."""
        return list(self._running.values())

    def processes(self) -> set[int]:
        """Return the shells of all terminals."""
        return {terminal.pid for terminal in self._running.values()}

    def get(self, terminal_id: str) -> Terminal:
        """Return a running terminal. Raises not_found."""
        terminal = self._running.get(terminal_id)
        if terminal is None:
            raise BoxError("not_found", "there is no such terminal")
        return terminal

    def _forget(self, terminal_id: str) -> None:
        self._running.pop(terminal_id, None)
