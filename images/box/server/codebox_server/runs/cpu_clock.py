"""The CPU time limit of a run: checks the usage, more often as the limit comes near."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from codebox_server.bounds import CPU_LOOK_SECONDS


class CpuClock:
    """Calls `on_spent` once when `used_ms` has reached the limit, until `cancel`; without a limit it does nothing."""

    def __init__(self, limit_ms: int | None, used_ms: Callable[[], float], on_spent: Callable[[], None]) -> None:
        self._limit_ms = limit_ms
        self._used_ms = used_ms
        self._on_spent = on_spent
        self._timer: asyncio.TimerHandle | None = None
        if limit_ms is not None:
            self._wait(limit_ms)

    def cancel(self) -> None:
        """Stop checking: the run has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, left_ms: float) -> None:
        low, high = CPU_LOOK_SECONDS
        # Several CPUs may use up the time together, so check well before one CPU could have.
        seconds = min(high, max(low, left_ms / 4000))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        left_ms = (self._limit_ms or 0) - self._used_ms()
        if left_ms > 0:
            self._wait(left_ms)
        else:
            self._on_spent()
