"""How a run that must end is ended: ask, then kill the kernel, then give up the whole box. Each step is recorded."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from codebox_server.bounds import EXIT_AFTER_SECONDS, EXIT_CODE_STUCK, KILL_AFTER_SECONDS

_log = logging.getLogger(__name__)


class Ladder:
    """Climbs by itself once started, until `cancel`. `stage` is the last step taken: interrupt, restart, box."""

    def __init__(self, interrupt: Callable[[], None], kill: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._kill = kill
        self._timer: asyncio.TimerHandle | None = None
        self.stage: str | None = None

    def start(self) -> None:
        """Take the first step; later calls change nothing."""
        if self.stage is not None:
            return
        self.stage = "interrupt"
        self._interrupt()
        self._timer = asyncio.get_running_loop().call_later(KILL_AFTER_SECONDS, self._restart)

    def cancel(self) -> None:
        """The run has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _restart(self) -> None:
        self.stage = "restart"
        self._kill()
        self._timer = asyncio.get_running_loop().call_later(EXIT_AFTER_SECONDS, self._exit)

    def _exit(self) -> None:
        self.stage = "box"
        # A process that survives SIGKILL hangs in the kernel of the host: only the end of the box gets rid of it.
        _log.critical("a kernel survived SIGKILL for %s s: the box ends", EXIT_AFTER_SECONDS)
        os._exit(EXIT_CODE_STUCK)
