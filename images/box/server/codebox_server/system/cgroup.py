"""The counters of this box's control group, in version 1 or 2: memory, OOM kills, and refused processes."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

from codebox_server.system.process import read_small
from codebox_server.system.process_table import all_pids, entry

# Version 1 first: a hybrid host has both, and then version 1 has the controllers.
_KILLS = ("memory/memory.oom_control", "memory.events", "memory.oom_control")
_PEAK = ("memory/memory.max_usage_in_bytes", "memory.peak", "memory.max_usage_in_bytes")
_LIMIT = ("memory/memory.limit_in_bytes", "memory.max", "memory.limit_in_bytes")
_REFUSALS = ("pids/pids.events", "pids.events")
_PIDS = ("pids/pids.current", "pids.current")
_MOST_PIDS = ("pids/pids.max", "pids.max")
# Version 1 represents "no limit" by a number of this size.
_UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Counts:
    """The counters so far; None where the host does not provide them."""

    # Processes that the out-of-memory killer has killed.
    oom_kills: int | None
    # Processes and threads that were refused because of the limit.
    refused: int | None


class Cgroup:
    """Reads the files of the group below `root`; results are None where the host does not provide them."""

    def __init__(self, root: Path) -> None:
        self._kills = _first(root, _KILLS)
        self._peak = _first(root, _PEAK)
        self._limit = _first(root, _LIMIT)
        self._refusals = _first(root, _REFUSALS)
        self._pids = _first(root, _PIDS)
        self._most_pids = _first(root, _MOST_PIDS)
        self._tasks = _UserTasks.limited() if _number(self._most_pids) is None else None

    def look(self) -> None:
        """Notice a full box where no counter does. To be called again and again."""
        if self._tasks is not None:
            self._tasks.look()

    def counts(self) -> Counts:
        """Return the current counters."""
        refused = _field(self._refusals, b"max") if self._tasks is None else self._tasks.seen_full
        return Counts(_field(self._kills, b"oom_kill"), refused)

    def memory(self) -> dict[str, int]:
        """Return `peakMemoryBytes`, the peak of the box so far, and `limitBytes`; unknown values are left out."""
        values = {"peakMemoryBytes": _number(self._peak), "limitBytes": _number(self._limit)}
        return {name: value for name, value in values.items() if value is not None and value < _UNLIMITED}

    def most_pids(self) -> int | None:
        """Return the limit of processes and threads."""
        return _number(self._most_pids) if self._tasks is None else self._tasks.most

    def crowded(self) -> bool:
        """Whether more than three quarters of the allowed processes and threads exist."""
        now, most = _number(self._pids) if self._tasks is None else self._tasks.count(), self.most_pids()
        return now is not None and most is not None and now > most * 3 // 4


class _UserTasks:
    """The processes and threads of a box whose control group has no limit of them, as with gVisor: its user has one.

    Nothing counts what the limit refuses, so each look at a box that is almost full stands for a refusal.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen_full = 0

    @classmethod
    def limited(cls) -> _UserTasks | None:
        """None when the user has no limit."""
        most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        return None if most == resource.RLIM_INFINITY else cls(most)

    def count(self) -> int:
        return sum(one.threads for one in map(entry, all_pids()) if one is not None)

    def look(self) -> None:
        if self.count() >= self.most - max(2, self.most // 32):
            self.seen_full += 1


def _first(root: Path, names: tuple[str, ...]) -> str | None:
    return next((str(root / name) for name in names if (root / name).is_file()), None)


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_small(path)
    except OSError:
        # The file can vanish with its control group; the result is then None, as documented.
        return None


def _field(path: str | None, name: bytes) -> int | None:
    for line in (_read(path) or b"").splitlines():
        key, _, value = line.partition(b" ")
        if key == name and value.isdigit():
            return int(value)
    return None


def _number(path: str | None) -> int | None:
    text = (_read(path) or b"").strip()
    return int(text) if text.isdigit() else None


def rose(before: int | None, after: int | None) -> bool:
    """Whether a counter rose between two readings, both known."""
    return before is not None and after is not None and after > before
