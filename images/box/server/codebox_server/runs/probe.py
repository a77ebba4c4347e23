"""What is measured around one run: CPU time, memory, processes, changed files, and what the box refused meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from codebox_server.bounds import SCAN_INLINE_ENTRIES, SWEEP_SECONDS
from codebox_server.files.scan import Scan, difference, scan
from codebox_server.runs.descendants import Descendants, Lineage
from codebox_server.system.cgroup import Cgroup, Counts, rose
from codebox_server.system.process import Death, children, cpu_ms, peak_bytes, reset_peak
from codebox_server.system.process_table import all_pids
from codebox_server.system.volume import Volume, volume


@dataclass(frozen=True)
class Reading:
    """The state before a run. Whoever has it closes its `descendants`."""

    pids: list[int]
    cpu_ms: float
    counts: Counts
    files: Scan
    descendants: Descendants
    # Whether there was room on every file system that code writes to.
    had_room: bool


@dataclass(frozen=True)
class Events:
    """What happened to the box during a run. `oom` has the peak and the limit of memory when the killer struck."""

    oom: dict[str, int] | None = None
    refused: bool = False
    # Whether there is still no room for processes, after those that the run left have been ended.
    crowded: bool = False


def is_wrapped(language: str) -> bool:
    """Whether the code of a language runs in a child of its kernel."""
    return language != "python"


class Probe:
    """Measures runs in the working folder `data`. Small folders are scanned in place, large ones in a thread."""

    def __init__(self, data: str, cgroup: Cgroup) -> None:
        self._data = data
        self._cgroup = cgroup
        self._entries = 0
        self._lineage = Lineage()

    async def scan(self) -> Scan:
        """The working folder now."""
        if self._entries > SCAN_INLINE_ENTRIES:
            try:
                result = await asyncio.to_thread(scan, self._data)
            except RuntimeError:
                # The box has as many processes and threads as it may have.
                result = scan(self._data)
        else:
            result = scan(self._data)
        self._entries = len(result.marks) if result.complete else SCAN_INLINE_ENTRIES + 1
        return result

    def counts(self) -> Counts:
        """What the box has counted so far."""
        return self._cgroup.counts()

    def follow(self, root: int, before: set[int], wrapped: bool = False) -> Descendants:
        """Begin to look after the processes that a run starts beside those that were there `before`."""
        return self._lineage.follow(root, wrapped, before)

    async def begin(self, pid: int, language: str) -> Reading:
        """Take the reading before a run. In languages other than Python the code runs in a child of the kernel."""
        wrapped = is_wrapped(language)
        pids = [pid, *children(pid)] if wrapped else [pid]
        files = await self.scan()
        reset_peak(pids)
        had_room = self.full_volume() is None
        return Reading(pids, cpu_ms(pids), self.counts(), files, self.follow(pid, all_pids(), wrapped), had_room)

    def used_ms(self, before: Reading) -> float:
        """The CPU time of a run until now."""
        return cpu_ms(before.pids) - before.cpu_ms + before.descendants.cpu_ms()

    async def events(self, before: Counts, started: Descendants, cpu_spent: bool, died: bool) -> Events:
        """What happened since. Of a run that has used up the memory, the processes or its CPU time nothing goes on."""
        now = self.counts()
        refused = rose(before.refused, now.refused)
        oom = self._cgroup.memory() if rose(before.oom_kills, now.oom_kills) else None
        if refused or cpu_spent or (died and oom is not None):
            started.kill()
        return Events(oom, refused, refused and await self._is_crowded())

    async def measure(self, before: Reading, death: Death | None) -> dict[str, Any]:
        """Fields of the `done` event. Of a kernel that died the peak is that of its whole life."""
        started = before.descendants
        if death is None:
            cpu, peak = cpu_ms(before.pids) - before.cpu_ms, peak_bytes(before.pids)
        else:
            cpu, peak = (death.cpu_ms or 0.0) - before.cpu_ms, death.peak_bytes
        return {
            "cpuMs": max(0, round(cpu + started.cpu_ms())),
            "peakMemoryBytes": peak,
            "processes": started.left(),
            "files": difference(before.files, await self.scan()),
        }

    def full_volume(self) -> tuple[str, Volume] | None:
        """The first of the file systems that code writes to on which there is no room, and what it is called."""
        for name, path in (("the volume of the box", self._data), ("/tmp", "/tmp")):
            found = volume(path)
            if found is not None and found.full:
                return name, found
        return None

    async def _is_crowded(self) -> bool:
        """Processes that have been killed need a moment to go."""
        for _ in range(10):
            if not self._cgroup.crowded():
                return False
            await asyncio.sleep(SWEEP_SECONDS / 10)
        return self._cgroup.crowded()
