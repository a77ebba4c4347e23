"""The start of a kernel process: the time until it responds for the first time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from codebox_server.bounds import IDLE_CPU_SHARE
from codebox_server.jupyter.channel import KernelChannel
from codebox_server.system.process import cpu_ms


class KernelStart:
    """Waits for the first reply of the process `pid`, however late it comes, until `close`.

    `seconds` is its deadline; `on_response` is called when it has replied.
    """

    def __init__(self, channel: KernelChannel, pid: int, seconds: float, on_response: Callable[[], None]) -> None:
        self._pid = pid
        self._seconds = seconds
        self._on_response = on_response
        self._due_at = time.monotonic() + seconds
        self.responded = self.closed = False
        self._listening = asyncio.ensure_future(self._listen(channel))

    @property
    def has_time(self) -> bool:
        """Whether it has not replied, but is still within its deadline."""
        return not self.responded and time.monotonic() < self._due_at

    async def wait(self, exited: asyncio.Event) -> bool:
        """Wait until it has replied or ended, for at most `seconds`. Return whether it has, or is making progress.

        A process that has done next to nothing meanwhile is stopped or waits for something; one that works is slow,
        as everything is on an overloaded host.
        """
        begun_ms = cpu_ms([self._pid])
        end = asyncio.ensure_future(exited.wait())
        await asyncio.wait((self._listening, end), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if self._listening.done() or exited.is_set():
            return True
        return cpu_ms([self._pid]) - begun_ms > self._seconds * 1000 * IDLE_CPU_SHARE

    def close(self) -> None:
        """Stop waiting."""
        self.closed = True
        self._listening.cancel()

    async def _listen(self, channel: KernelChannel) -> None:
        await channel.ready()
        self.responded = True
        self._on_response()
