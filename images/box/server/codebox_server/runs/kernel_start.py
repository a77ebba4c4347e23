"""The start of a process of a kernel: the time until it answers for the first time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from codebox_server.bounds import IDLE_CPU_SHARE
from codebox_server.jupyter.channel import KernelChannel
from codebox_server.system.process import cpu_ms


class KernelStart:
    """Listens for the first answer of the process `pid`, however late that comes, until `close`.

    `seconds` is the time that it has; `on_answer` is called when it has answered.
    """

    def __init__(self, channel: KernelChannel, pid: int, seconds: float, on_answer: Callable[[], None]) -> None:
        self._pid = pid
        self._seconds = seconds
        self._on_answer = on_answer
        self._due_at = time.monotonic() + seconds
        self.answered = self.closed = False
        self._listening = asyncio.ensure_future(self._listen(channel))

    @property
    def has_time(self) -> bool:
        """Whether it has not answered, and need not have."""
        return not self.answered and time.monotonic() < self._due_at

    async def wait(self, exited: asyncio.Event) -> bool:
        """Wait until it has answered or ended, for `seconds` at most. Whether that or its work gives reason to wait on.

        A process that has done next to nothing meanwhile is stopped or waits for something; one that works is slow, as
        all are on a host that has too much to do.
        """
        begun_ms = cpu_ms([self._pid])
        end = asyncio.ensure_future(exited.wait())
        await asyncio.wait((self._listening, end), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if self._listening.done() or exited.is_set():
            return True
        return cpu_ms([self._pid]) - begun_ms > self._seconds * 1000 * IDLE_CPU_SHARE

    def close(self) -> None:
        """Stop listening."""
        self.closed = True
        self._listening.cancel()

    async def _listen(self, channel: KernelChannel) -> None:
        await channel.ready()
        self.answered = True
        self._on_answer()
