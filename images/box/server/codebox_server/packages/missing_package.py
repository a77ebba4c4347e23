"""The package that a run lacked when it failed on a missing module, and its installation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.packages.hints import Hints
from codebox_server.packages.installer import Installed, Installer
from codebox_server.packages.retry import may_run_again

# Advice, or why autoInstall did not help.
ADVICE = "Install it, or run with autoInstall."
UNREACHABLE = "autoInstall has nowhere to get it from: this box has no network."
HAS_RUN = "autoInstall skipped it because more than imports had run: install it first."
TRIED = "autoInstall has installed another package for this run already: install this one too."
FAILED = "autoInstall could not install it."


@dataclass(frozen=True)
class MissingPackage:
    """An error that is held back: installing `hint["package"]` and running again may avoid it."""

    name: str
    value: str
    traceback: list[str]
    hint: dict[str, Any]

    def with_advice(self, advice: str) -> dict[str, Any]:
        """Return the hint with the resulting advice."""
        return {**self.hint, "detail": f"{self.hint['detail']} {advice}"}


class MissingPackages:
    """Explains errors, and installs the packages that they name."""

    def __init__(self, hints: Hints, installer: Installer) -> None:
        self._hints = hints
        self._installer = installer

    def find(self, language: str, code: str, name: str, value: str, traceback: list[str]) -> MissingPackage | None:
        """Return what would help against an error, None when that is unknown."""
        hint = self._hints.of(language, code, name, value)
        return None if hint is None else MissingPackage(name, value, traceback, hint)

    def explain(self, value: str, refused: str | None) -> dict[str, Any] | None:
        """Return the hint for an error that no installation avoids; `refused`: a package that pip did not install."""
        return self._hints.of_conflict(refused) or self._hints.of_library(value)

    def obstacle(self, language: str, code: str, missing: MissingPackage) -> str | None:
        """Return why the package cannot be installed or the code run again, None when both are possible."""
        if not self._installer.sources.reach(missing.hint["manager"]):
            return UNREACHABLE
        return None if may_run_again(language, code, missing.hint["module"], missing.traceback) else HAS_RUN

    async def install(self, missing: MissingPackage, stop: asyncio.Event) -> Installed:
        """Install the package; `stop` ends the installer."""
        manager, package = missing.hint["manager"], missing.hint["package"]
        try:
            return await self._installer.install(manager, package, stop)
        except BoxError as error:
            return Installed(manager, [], None, error.detail)
