"""Measurements around one run: CPU time, memory, processes, changed files, and what the box refused meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codebox_server.bounds import (
    LEFTOVER_LOOK_SECONDS,
    LEFTOVER_LOOKS,
    LEFTOVER_MIN,
    LEFTOVER_PAUSES,
    LEFTOVER_PAUSES_FLEETING,
    SCAN_INLINE_ENTRIES,
    SWEEP_SECONDS,
    SWEEP_SECONDS_MAX,
)
from codebox_server.files.scan import Scan, difference, scan
from codebox_server.runs.crowd import Crowd
from codebox_server.runs.descendants import Descendants, Lineage
from codebox_server.system.cgroup import Cgroup, Counts, rose
from codebox_server.system.process import Death, children, cpu_ms, peak_bytes, reset_peak
from codebox_server.system.process_table import all_pids
from codebox_server.system.volume import Volume, volume


@dataclass(frozen=True)
class Reading:
    """The state before a run. The owner closes its `descendants`."""

    pids: list[int]
    cpu_ms: float
    counts: Counts
    files: Scan
    descendants: Descendants
    # Whether there was room on every file system that code writes to.
    had_room: bool


@dataclass(frozen=True)
class Events:
    """Events in the box during a run. `oom` has the peak and the limit of memory when the OOM killer struck."""

    oom: dict[str, int] | None = None
    refused: bool = False
    # Whether processes were refused and leftover ones were killed.
    ended: bool = False
    # Whether there is still no room for processes after the leftovers of the run were killed.
    crowded: bool = False


def is_wrapped(language: str) -> bool:
    """Whether the code of a language runs in a child of its kernel."""
    return language != "python"


class Probe:
    """Measures runs in the working folder `data`. Small folders are scanned in place, large ones in a thread.

    `callers`: see `Crowd`.
    """

    def __init__(self, data: str, cgroup: Cgroup, callers: Callable[[], set[int]]) -> None:
        self._data = data
        self._cgroup = cgroup
        self._entries = 0
        self._lineage = Lineage()
        self.crowd = Crowd(cgroup, self._lineage, callers)

    async def scan(self) -> Scan:
        """Scan the working folder."""
        if self._entries > SCAN_INLINE_ENTRIES:
            try:
                result = await asyncio.to_thread(scan, self._data)
            except RuntimeError:
                # The box has reached its limit of processes and threads.
                result = scan(self._data)
        else:
            result = scan(self._data)
        self._entries = len(result.marks) if result.complete else SCAN_INLINE_ENTRIES + 1
        return result

    def counts(self) -> Counts:
        """Return the current counters of the box."""
        return self._cgroup.counts()

    def follow(self, root: int, before: set[int], end: Callable[[], None], wrapped: bool = False) -> Descendants:
        """Begin to track the processes of a run; see `Lineage.follow`."""
        return self._lineage.follow(root, wrapped, before, end)

    async def begin(self, pid: int, language: str, end: Callable[[], None]) -> Reading:
        """Take the reading before a run. In languages other than Python the code runs in a child of the kernel.

        `end` ends the run when it fills the box.
        """
        wrapped = is_wrapped(language)
        files = await self.scan()
        # A kernel may start its child at any time. One that is not in `before` is measured as a process of the run.
        before = all_pids()
        pids = [pid, *(child for child in children(pid) if child in before)] if wrapped else [pid]
        reset_peak(pids)
        had_room = self.full_volume() is None
        descendants = self.follow(pid, before, end, wrapped)
        return Reading(pids, cpu_ms(pids), self.counts(), files, descendants, had_room)

    def used_ms(self, before: Reading) -> float:
        """Return the CPU time of a run so far."""
        return cpu_ms(before.pids) - before.cpu_ms + before.descendants.cpu_ms()

    async def events(self, before: Counts, started: Descendants, cpu_spent: bool, died: bool) -> Events:
        """Return what happened since. Kills the leftovers of a run that used up memory, processes or its CPU time."""
        await self._await_leftovers(before, started)
        now = self.counts()
        refused = rose(before.refused, now.refused)
        oom = self._cgroup.memory() if rose(before.oom_kills, now.oom_kills) else None
        if refused or cpu_spent or (died and oom is not None):
            started.kill()
        return Events(oom, refused, refused and started.were_killed, refused and await self._is_crowded(started))

    async def measure(self, before: Reading, death: Death | None) -> dict[str, Any]:
        """Return fields of the `done` event. The peak of a kernel that died covers its whole life."""
        started = before.descendants
        peak: int | None
        if death is None:
            cpu, peak = cpu_ms(before.pids) - before.cpu_ms, peak_bytes(before.pids)
        else:
            cpu, peak = (death.cpu_ms or 0.0) - before.cpu_ms, death.peak_bytes
        of_started, left = started.account()
        return {
            "cpuMs": max(0, round(cpu + of_started)),
            "peakMemoryBytes": peak,
            "processes": left,
            "files": difference(before.files, await self.scan()),
        }

    def full_volume(self) -> tuple[str, Volume] | None:
        """Return the first full file system that code writes to, and its name."""
        for name, path in (("the volume of the box", self._data), ("/tmp", "/tmp")):
            found = volume(path)
            if found is not None and found.full:
                return name, found
        return None

    def make_way(self, started: Descendants) -> None:
        """Kill the processes of a run if there are so many that a killed kernel would not get the CPU time to end."""
        if self._cgroup.crowded():
            started.kill()

    async def _await_leftovers(self, before: Counts, started: Descendants) -> None:
        """Wait while the leftovers of a run multiply, until the box refuses more."""
        if len(started.running()) < LEFTOVER_MIN and not started.fleeting:
            return
        most, pauses = 0, 0
        for _ in range(LEFTOVER_LOOKS):
            count = len(started.running())
            pauses = 0 if count > most else pauses + 1
            most = max(most, count)
            # Other processes come and go too, such as those of a build in another run.
            patience = LEFTOVER_PAUSES_FLEETING if started.fleeting else LEFTOVER_PAUSES
            if pauses >= patience or rose(before.refused, self.counts().refused):
                return
            await asyncio.sleep(LEFTOVER_LOOK_SECONDS)

    async def _is_crowded(self, started: Descendants) -> bool:
        """Whether the box stays crowded: killed processes need a moment to disappear, and an unseen one may have
        forked.
        """
        begun = last = time.monotonic()
        while self._cgroup.crowded():
            if last - begun > SWEEP_SECONDS_MAX or time.monotonic() - last > SWEEP_SECONDS:
                return True
            await asyncio.sleep(SWEEP_SECONDS / 10)
            if started.kill():
                last = time.monotonic()
        return False
