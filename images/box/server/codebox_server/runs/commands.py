"""All known commands, by id."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from codebox_server.bounds import COMMANDS_RUNNING
from codebox_server.errors import BoxError
from codebox_server.runs.command import Command, CommandRequest
from codebox_server.runs.journal import Journals
from codebox_server.runs.probe import Probe


class Commands:
    """Starts, finds and ends commands. `data` is the base folder of a relative `cwd`."""

    def __init__(self, data: str, env: Callable[[], dict[str, str]], probe: Probe, journals: Journals) -> None:
        self._data = data
        self._env = env
        self._probe = probe
        self._journals = journals
        self._starting: set[str] = set()

    async def start(self, request: CommandRequest) -> Command:
        """Start a process. Raises conflict (id known), invalid_request (cannot start), too_many_requests."""
        if request.id in self._starting or self._journals.get(_key(request.id)) is not None:
            raise BoxError("conflict", "a command with this id exists")
        if sum(command.state == "running" for command in self.list()) >= COMMANDS_RUNNING:
            raise BoxError("too_many_requests", f"{COMMANDS_RUNNING} commands are running")
        self._starting.add(request.id)
        try:
            files = await self._probe.scan()
            command = Command(request, self._journals, self._probe)

            async def begin() -> None:
                command.start(self._env(), files)

            await self._probe.crowd.making_room(begin)
        finally:
            self._starting.discard(request.id)
        self._journals.add(_key(request.id), command)
        return command

    def stop_all(self, reason: str, details: dict[str, Any]) -> None:
        """End every command. `details`: further fields of their cause."""
        for command in self.list():
            command.end(reason, details)

    def processes(self) -> set[int]:
        """Return the running processes of commands themselves, without their children."""
        return {command.pid for command in self.list() if command.state == "running"}

    def folder(self, cwd: str | None) -> str:
        """Return the folder of a command: absolute, or relative to `data`. Raises invalid_request when it does not
        exist.
        """
        path = os.path.join(self._data, cwd or "")
        if "\0" in path or not os.path.isdir(path):
            raise BoxError("invalid_request", "no such folder", "/cwd")
        return os.path.normpath(path)

    def list(self) -> list[Command]:
        """Return every known command, oldest first."""
        return [run for run in self._journals.values() if isinstance(run, Command)]

    def get(self, command_id: str) -> Command:
        """Return a command by id. Raises not_found, also when it has been dropped."""
        command = self._journals.get(_key(command_id))
        if not isinstance(command, Command):
            raise BoxError("not_found", "no such command")
        return command


def _key(command_id: str) -> str:
    return f"commands/{command_id}"
