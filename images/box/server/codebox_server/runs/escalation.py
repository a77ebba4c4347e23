"""Escalation for a run that must end: interrupt it, then kill the kernel, then end the whole box. Each step is
recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from codebox_server.bounds import (
    EXIT_AFTER_SECONDS,
    EXIT_AFTER_SECONDS_MAX,
    EXIT_CODE_STUCK,
    KILL_AFTER_SECONDS,
    KILL_AGAIN_SECONDS,
)
from codebox_server.system.leaving import leave_now

_log = logging.getLogger(__name__)


class Escalation:
    """Escalates by itself once started, until `cancel`. `stage` is the last step taken: interrupt, restart, box."""

    def __init__(self, interrupt: Callable[[], None], kill: Callable[[], None], hangs: Callable[[], bool]) -> None:
        self._interrupt = interrupt
        self._kill = kill
        self._hangs = hangs
        self._killed_at = self._moved_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.stage: str | None = None
        self.cancelled = False

    def start(self) -> None:
        """Take the first step; later calls, and calls after `cancel`, have no effect."""
        if self.stage is not None or self.cancelled:
            return
        self.stage = "interrupt"
        self._interrupt()
        self._timer = asyncio.get_running_loop().call_later(KILL_AFTER_SECONDS, self._restart)

    def cancel(self) -> None:
        """Stop escalating: the run has ended."""
        self.cancelled = True
        if self._timer is not None:
            self._timer.cancel()

    def _restart(self) -> None:
        self.stage = "restart"
        self._killed_at = self._moved_at = time.monotonic()
        self._look()

    def _look(self) -> None:
        """Kill until the process is gone. One that hangs in the host has less time than one that waits for the CPU."""
        now = time.monotonic()
        if not self._hangs():
            self._moved_at = now
        if now - self._moved_at > EXIT_AFTER_SECONDS or now - self._killed_at > EXIT_AFTER_SECONDS_MAX:
            self._exit(now - self._killed_at)
        self._kill()
        self._timer = asyncio.get_running_loop().call_later(KILL_AGAIN_SECONDS, self._look)

    def _exit(self, seconds: float) -> None:
        self.stage = "box"
        # Only the end of the box gets rid of such a process.
        _log.critical("a kernel survived SIGKILL for %.1f s: the box ends", seconds)
        leave_now(EXIT_CODE_STUCK)
