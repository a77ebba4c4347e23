"""The variables of a template, with which the default Python context of its boxes begins."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from codebox_server.bounds import EXIT_AFTER_SECONDS, LOAD_VARIABLES_SECONDS
from codebox_server.errors import BoxError
from codebox_server.kernels.variables import SAVED
from codebox_server.runs.live_kernel import LiveKernel


class InitialVariables:
    """Loads the files of a folder, if it exists, into each new process of a kernel before anything else runs there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Of the process that has them: set when it exits.
        self._loaded: asyncio.Event | None = None
        self._loading = asyncio.Lock()
        # A kernel that has ended while it loaded them would do so again.
        self._given_up = False

    async def load(self, kernel: LiveKernel) -> None:
        """Return once a kernel that responds has the variables. It may have ended afterwards; it never hangs."""
        if self._loaded is kernel.exited or self._given_up or kernel.death is not None or not self._folder.is_dir():
            return
        async with self._loading:
            if self._loaded is kernel.exited or kernel.death is not None:
                return
            self._loaded = kernel.exited
            content = {"action": "load", "folder": str(self._folder)}
            try:
                self._given_up = await kernel.request(SAVED, content, LOAD_VARIABLES_SECONDS) is None
            except TimeoutError:
                self._given_up = True
                kernel.kill()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(kernel.exited.wait(), EXIT_AFTER_SECONDS)
            except (BoxError, RuntimeError, OSError):
                return
            # Nothing that ran is lost with it.
            kernel.loss_reported |= self._given_up
