"""What a run that died on a missing module lacks, and getting it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.packages.hints import Hints
from codebox_server.packages.installer import Installed, Installer
from codebox_server.packages.retry import may_run_again


@dataclass(frozen=True)
class Lack:
    """An error that is not shown yet: installing `hint["package"]` and running again may make it good."""

    name: str
    value: str
    traceback: list[str]
    hint: dict[str, Any]


class Lacks:
    """Explains errors, and installs what they name."""

    def __init__(self, hints: Hints, installer: Installer) -> None:
        self._hints = hints
        self._installer = installer

    def hint(self, language: str, code: str, name: str, value: str) -> dict[str, Any] | None:
        """Which package would help, None when that is not known."""
        return self._hints.of(language, code, name, value)

    def can_be_mended(self, language: str, code: str, lack: Lack) -> bool:
        """Whether the package can be had here and the code may be run again."""
        module = lack.hint["module"]
        can_be_had = self._installer.sources.reach(lack.hint["manager"])
        return can_be_had and may_run_again(language, code, module, lack.traceback)

    async def mend(self, lack: Lack, stop: asyncio.Event) -> Installed:
        """Install the package; `stop` ends the installer."""
        manager, package = lack.hint["manager"], lack.hint["package"]
        try:
            return await self._installer.install(manager, package, stop)
        except BoxError as error:
            return Installed(manager, [], None, error.detail)
