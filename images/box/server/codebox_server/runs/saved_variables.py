"""Saves the variables of the default Python context in the volume of the box, for a template."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

from codebox_server.bounds import (
    CHECK_VARIABLES_SECONDS,
    FAULTS_LISTED,
    HOLD_VARIABLES_SECONDS,
    SAVE_VARIABLES_SECONDS,
)
from codebox_server.errors import BoxError
from codebox_server.files.removal import remove_tree
from codebox_server.kernels.variables import SAVED
from codebox_server.runs.context import Context
from codebox_server.runs.contexts import Contexts
from codebox_server.system.cgroup import Cgroup
from codebox_server.system.memory import memory_limit

_USUAL_BYTES = 1 << 30


class SavedVariables:
    """`kept` has what new boxes load, and `fresh` what has been saved in this box, which is loaded nowhere yet.

    What is saved belongs to one build at a time, its owner, until it drops it.
    """

    def __init__(self, kept: Path, fresh: Path, contexts: Contexts, cgroup: Cgroup) -> None:
        self._kept = kept
        self._fresh = fresh
        self._contexts = contexts
        self._cgroup = cgroup
        # One at a time uses the folder, also when its caller has left.
        self._lock = asyncio.Lock()
        self._owner: str | None = None
        self._held_until = 0.0

    async def save(self, owner: str) -> dict[str, Any]:
        """Save the variables. Return `{kept, faults: [{name, detail}], more}`: how many are kept, and which are not.

        Raises conflict while code runs in the context, and while another owner has not dropped what it saved.
        """
        async with self._lock:
            if self._owner not in (None, owner) and time.monotonic() < self._held_until:
                raise BoxError("conflict", "another build is saving the variables of this box")
            self._owner, self._held_until = owner, time.monotonic() + HOLD_VARIABLES_SECONDS
            await self._clear()
            context = self._contexts.existing_default("python")
            if context is None:
                return _report(self._fresh, {})
            extra_bytes = self._memory() // 4
            faults = await self._ask(context, "save", extra_bytes, SAVE_VARIABLES_SECONDS)
            return _report(self._fresh, faults)

    async def adopt(self) -> dict[str, Any]:
        """Have kernels begin with the saved variables, those of them that can be loaded here. Return as `save` does."""
        async with self._lock:
            return await self._adopt()

    async def drop(self, owner: str) -> None:
        """Remove variables that this owner has saved in this box, but not those that it loads."""
        async with self._lock:
            if self._owner in (None, owner):
                await self._clear()
                self._owner = None

    async def _adopt(self) -> dict[str, Any]:
        faults: dict[str, str] = {}
        if self._fresh.is_dir():
            context = await self._contexts.default("python")
            extra_bytes = self._memory() // 2
            faults = await self._ask(context, "check", extra_bytes, CHECK_VARIABLES_SECONDS)
        report = _report(self._fresh, faults)
        await asyncio.to_thread(_remove, self._kept)
        if report["kept"] > 0:
            os.rename(self._fresh, self._kept)
        else:
            await self._clear()
        return report

    async def _clear(self) -> None:
        await asyncio.to_thread(_remove, self._fresh)

    async def _ask(self, context: Context, action: str, extra_bytes: int, seconds: float) -> dict[str, str]:
        """Have copies of the kernel do it, which may use this much more memory. Return what cannot be kept, and why."""
        content = {"action": action, "folder": str(self._fresh), "extraBytes": extra_bytes}
        reply = await context.ask(SAVED, content, seconds)
        if "error" in reply or not reply:
            why = reply.get("error", "their kernel ended")
            raise BoxError("conflict", f"the variables cannot be saved: {why}")
        faults = reply.get("faults")
        return {str(name): str(why) for name, why in faults.items()} if isinstance(faults, dict) else {}

    def _memory(self) -> int:
        return memory_limit(self._cgroup) or _USUAL_BYTES


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            remove_tree(str(folder))
        except NotADirectoryError:
            folder.unlink()


def _report(folder: Path, faults: dict[str, str]) -> dict[str, Any]:
    names = sorted(faults)
    kept = sum(1 for _ in folder.glob("*.pickle")) if folder.is_dir() else 0
    listed = [{"name": name, "detail": faults[name]} for name in names[:FAULTS_LISTED]]
    return {"kept": kept, "faults": listed, "more": len(names) - len(listed)}
