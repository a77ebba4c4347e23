"""Measures CPU time that a kernel uses while it runs nothing: threads that code has left there."""

from __future__ import annotations

import time

from codebox_server.bounds import IDLE_CPU_LOOKS, IDLE_CPU_SECONDS_MIN, IDLE_CPU_SHARE
from codebox_server.system.process import cpu_ms


class IdleCpu:
    """Compares the CPU time of a kernel's processes, including children that they waited for, between checks."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Ignore the usage until the next check: a run was active, or the kernel starts."""
        self._pids: set[int] = set()
        self._cpu_ms = 0.0
        self._looked_at = 0.0
        self._busy = 0

    def look(self, pids: set[int]) -> bool:
        """Whether it has used CPU time before each of the last checks.

        A single such check means nothing: a run that has just ended leaves work behind, and children to wait for.
        """
        now = time.monotonic()
        elapsed = now - self._looked_at
        if pids == self._pids and elapsed < IDLE_CPU_SECONDS_MIN:
            return False
        used_ms, last_ms = cpu_ms(list(pids)), self._cpu_ms
        is_busy = pids == self._pids and used_ms - last_ms > elapsed * 1000 * IDLE_CPU_SHARE
        self._busy = self._busy + 1 if is_busy else 0
        self._pids, self._cpu_ms, self._looked_at = pids, used_ms, now
        return self._busy >= IDLE_CPU_LOOKS
