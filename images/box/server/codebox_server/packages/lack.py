"""What a run that died on a missing module lacks, and getting it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.packages.hints import Hints
from codebox_server.packages.installer import Installed, Installer
from codebox_server.packages.retry import may_run_again

# What is advised, or why autoInstall has not helped.
ADVICE = "Install it, or run with autoInstall."
UNREACHABLE = "autoInstall has nowhere to get it from: this box has no network."
HAS_RUN = "autoInstall left it, because more than imports had run: install it first."
TRIED = "autoInstall has installed another package for this run already: install this one too."
FAILED = "autoInstall could not install it."


@dataclass(frozen=True)
class Lack:
    """An error that is not shown yet: installing `hint["package"]` and running again may make it good."""

    name: str
    value: str
    traceback: list[str]
    hint: dict[str, Any]

    def told(self, advice: str) -> dict[str, Any]:
        """The hint with what follows from it."""
        return {**self.hint, "detail": f"{self.hint['detail']} {advice}"}


class Lacks:
    """Explains errors, and installs what they name."""

    def __init__(self, hints: Hints, installer: Installer) -> None:
        self._hints = hints
        self._installer = installer

    def find(self, language: str, code: str, name: str, value: str, traceback: list[str]) -> Lack | None:
        """What would help against an error, None when that is not known."""
        hint = self._hints.of(language, code, name, value)
        return None if hint is None else Lack(name, value, traceback, hint)

    def obstacle(self, language: str, code: str, lack: Lack) -> str | None:
        """Why the package cannot be installed and the code run again, None when both can be."""
        if not self._installer.sources.reach(lack.hint["manager"]):
            return UNREACHABLE
        return None if may_run_again(language, code, lack.hint["module"], lack.traceback) else HAS_RUN

    async def mend(self, lack: Lack, stop: asyncio.Event) -> Installed:
        """Install the package; `stop` ends the installer."""
        manager, package = lack.hint["manager"], lack.hint["package"]
        try:
            return await self._installer.install(manager, package, stop)
        except BoxError as error:
            return Installed(manager, [], None, error.detail)
