"""The processes that a run has started: identifies them, measures their CPU time, and ends them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from codebox_server.bounds import PROCESSES_REPORTED
from codebox_server.runs.mass_kill import Identity, find, is_ours, kill_all
from codebox_server.system.process_table import Entry, age_ms, all_pids, command_of


class Lineage:
    """The active runs of a box. Determines the run of a process that has left its family."""

    def __init__(self) -> None:
        self.active: set[Descendants] = set()

    def follow(self, root: int, wrapped: bool, before: set[int], end: Callable[[], None]) -> Descendants:
        """Track the processes that `root` starts in addition to `before`. `wrapped`: code runs in a child of it.

        `end` ends the run itself because it fills the box; it may be called repeatedly.
        """
        run = Descendants(self, root, wrapped, before, end)
        self.active.add(run)
        return run


class Descendants:
    """The processes that one run has started, including daemons.

    A process belongs to the run whose kernel or command is its ancestor, or leads its session or group. A process
    that has cut all these ties belongs to the run that it was seen with, or otherwise to the only active run.
    """

    def __init__(self, lineage: Lineage, root: int, wrapped: bool, before: set[int], end: Callable[[], None]) -> None:
        self._lineage = lineage
        self.root = root
        self.end = end
        self._wrapped = wrapped
        self._before = before
        self._seen: dict[Identity, Entry] = {}
        self._killed: set[Identity] = set()
        self._gone_ms = 0.0
        # Whether processes of the last check had ended before they could be examined.
        self.fleeting = False

    def close(self) -> None:
        """Stop tracking: the run has ended."""
        self._lineage.active.discard(self)

    def cpu_ms(self) -> float:
        """Return CPU time of living processes, and of those that ended without a parent that waited for them."""
        return self._used_ms(self._look())

    def account(self) -> tuple[float, list[dict[str, Any]]]:
        """Return `cpu_ms`, and the running processes, largest first, as the `processes` of a `done` event."""
        found = self._look()
        left = [one for one in found if self._runs(one) and (one.pid, one.start) not in self._killed]
        left.sort(key=lambda one: -one.memory_bytes)
        return self._used_ms(found), [
            {
                "pid": one.pid,
                "command": command_of(one.pid),
                "ageMs": age_ms(one.start),
                "memoryBytes": one.memory_bytes,
            }
            for one in left[:PROCESSES_REPORTED]
        ]

    def _used_ms(self, found: list[Entry]) -> float:
        living = {(one.pid, one.start): one for one in found}
        family = {pid for pid, _ in self._seen} | {self.root}
        for identity, last in self._seen.items():
            # A parent that waited for it includes its time in that of its children.
            if identity not in living and last.parent not in family:
                self._gone_ms += last.cpu_ms
        self._seen = living
        return self._gone_ms + sum(one.cpu_ms for one in living.values())

    def kill(self) -> bool:
        """Kill them all; return whether there were any. They may take a moment to disappear."""
        killed = kill_all(self.running)
        self._killed |= killed
        return bool(killed)

    @property
    def were_killed(self) -> bool:
        """Whether some were killed, here or by the watch over the box."""
        return bool(self._killed)

    def running(self) -> list[Entry]:
        """Return the running processes, without the shell or interpreter that holds the variables of the context."""
        return [one for one in self._look() if self._runs(one)]

    def _runs(self, one: Entry) -> bool:
        return not one.ended and not (self._wrapped and one.parent == self.root)

    def _look(self) -> list[Entry]:
        fresh = all_pids() - self._before
        self.fleeting = False
        if not fresh:
            return []
        table: dict[int, Entry | None] = {}
        known: dict[int, bool] = {}
        found = []
        for pid in fresh:
            one = find(table, pid)
            self.fleeting |= one is None or (one.ended and one.parent != self.root)
            if one is not None and pid != self.root and self._is_mine(one, table, known):
                found.append(one)
        return found

    def _is_mine(self, one: Entry, table: dict[int, Entry | None], known: dict[int, bool]) -> bool:
        path = [one]
        while True:
            head = path[-1]
            if head.pid in known:
                mine = known[head.pid]
                break
            if head.pid == self.root:
                mine = True
                break
            if head.parent == os.getpid():
                # The box server starts kernels and commands, which belong to no run. Occasionally it adopts an orphan.
                mine = self.root in (head.session, head.group)
                break
            parent = find(table, head.parent) if head.parent > 1 else None
            if parent is None or len(path) > len(table):
                mine = self._is_mine_alone(head, table)
                break
            path.append(parent)
        known.update((step.pid, mine) for step in path)
        return mine

    def _is_mine_alone(self, head: Entry, table: dict[int, Entry | None]) -> bool:
        """Whether a process without a parent belongs to this run."""
        if self.root in (head.session, head.group) or (head.pid, head.start) in self._seen:
            return True
        if head.pid in self._before or not is_ours(head.pid):
            return False
        leader = find(table, head.session)
        if leader is not None and leader.pid != head.pid and leader.pid in self._before:
            # It has stayed in the session of another kernel, command or terminal.
            return False
        return self._lineage.active <= {self}
