"""Runs installers one after the other, as commands with a journal of their own, and reports what each changed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codebox_server.bounds import INSTALL_TEXT, PACKAGES_REPORTED
from codebox_server.packages.conflicts import conflict_hint, refused_package, shadow_hint
from codebox_server.packages.inventory import Inventory, changes
from codebox_server.packages.sources import Sources
from codebox_server.runs.command import Command, CommandRequest
from codebox_server.runs.commands import Commands
from codebox_server.runs.journal import Journals
from codebox_server.runs.probe import Probe


@dataclass(frozen=True)
class Installed:
    """The result of an installation: the fields of an `install` event."""

    manager: str
    packages: list[dict[str, str]]
    exit_code: int | None
    text: str
    hint: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the event."""
        return {
            "manager": self.manager,
            "packages": self.packages,
            "exitCode": self.exit_code,
            "text": self.text,
        }


class Installer:
    """Installs packages. `lock` is a file: two installers at once would break each other's work."""

    def __init__(
        self,
        sources: Sources,
        inventory: Inventory,
        commands: Commands,
        probe: Probe,
        env: Callable[[], dict[str, str]],
        lock: str,
    ) -> None:
        self.sources = sources
        self.inventory = inventory
        self._commands = commands
        self._probe = probe
        self._env = env
        self._lock = lock
        self._running: dict[str, int] = {}
        self._known: dict[str, dict[str, str]] = {}

    async def start(
        self,
        command_id: str,
        manager: str,
        packages: list[str],
        timeout_ms: int | None,
        cpu_limit_ms: int | None = None,
    ) -> Command:
        """Install as a command that callers can read, follow and end; its `done` has `installed`.

        Raises conflict (no source, id known), too_many_requests.
        """
        request = self._request(command_id, manager, packages, timeout_ms, cpu_limit_ms)
        try:
            await self._begin(manager)
            return await self._commands.start(request)
        except BaseException:
            self._running[manager] -= 1
            raise

    async def install(self, manager: str, package: str, stop: asyncio.Event) -> Installed:
        """Install for a run that lacks a package; `stop` ends it."""
        request = self._request(uuid.uuid4().hex, manager, [package], None, None)
        try:
            await self._begin(manager)
            # Not one of the box's commands: its output goes into the journal of the run.
            command = Command(request, Journals(), self._probe)
            command.start(self._env(), await self._probe.scan())
        except BaseException:
            self._running[manager] -= 1
            raise
        stopping = asyncio.ensure_future(_end_when(command, stop))
        try:
            return await _read(command, manager)
        finally:
            stopping.cancel()

    def _request(
        self, command_id: str, manager: str, packages: list[str], timeout_ms: int | None, cpu_limit_ms: int | None
    ) -> CommandRequest:
        argv = ["flock", "--close", self._lock, *self.sources.argv(manager, packages)]
        cwd = self._commands.folder(None)
        return CommandRequest(
            command_id,
            None,
            argv,
            cwd,
            timeout_ms,
            conclude=lambda tail: self._conclude(manager, tail),
            cpu_limit_ms=cpu_limit_ms,
        )

    async def _begin(self, manager: str) -> None:
        running = self._running.get(manager, 0)
        self._running[manager] = running + 1
        if running == 0:
            self._known[manager] = await asyncio.to_thread(self.inventory.user, manager)

    async def _conclude(self, manager: str, tail: str) -> dict[str, Any]:
        """Return what changed since the last installer ended, or since the first of several began, and a hint if pip
        has refused a package or has replaced one of the image. `tail` is the end of its output.
        """
        try:
            after = await asyncio.to_thread(self.inventory.user, manager)
        finally:
            self._running[manager] -= 1
        # The first of several may not have read them yet, or have failed to.
        before, self._known[manager] = self._known.get(manager, after), after
        changed = changes(before, after)
        hint = conflict_hint(self.inventory, refused_package(tail))
        if hint is None and manager == "pip":
            hint = shadow_hint(self.inventory, changed)
        return {"installed": changed[:PACKAGES_REPORTED], **({} if hint is None else {"hint": hint})}


async def _end_when(command: Command, stop: asyncio.Event) -> None:
    await stop.wait()
    command.end("killed")


async def _read(command: Command, manager: str) -> Installed:
    text = ""
    done: dict[str, Any] = {}
    async for batch in command.journal.read(0):
        for line in batch.splitlines():
            event = json.loads(line) if line else {}
            text = (text + event.get("text", ""))[-INSTALL_TEXT:]
            done = event
    return Installed(manager, done.get("installed", []), done.get("exitCode"), text, done.get("hint"))
