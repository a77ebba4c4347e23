"""The processes that a run has started: who they are, what CPU time they took, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

from codebox_server.bounds import PROCESSES_TOLD
from codebox_server.system.process_table import Entry, age_ms, all_pids, command_of, entry

_ROUNDS = 20

Identity = tuple[int, int]


class Lineage:
    """The runs that go on in a box. Tells whose a process is that has left its family."""

    def __init__(self) -> None:
        self.active: set[Descendants] = set()

    def follow(self, root: int, wrapped: bool, before: set[int]) -> Descendants:
        """Look after what the process `root` starts beside those of `before`. `wrapped`: code runs in a child of it."""
        run = Descendants(self, root, wrapped, before)
        self.active.add(run)
        return run


class Descendants:
    """What one run has started, daemons too.

    A process belongs to the run whose kernel or command is its ancestor, or leads its session or group. One that has
    cut all these ties belongs to the run that it was seen with, or else to the only run that goes on.
    """

    def __init__(self, lineage: Lineage, root: int, wrapped: bool, before: set[int]) -> None:
        self._lineage = lineage
        self._root = root
        self._wrapped = wrapped
        self._before = before
        self._seen: dict[Identity, Entry] = {}
        self._killed: set[Identity] = set()
        self._gone_ms = 0.0

    def close(self) -> None:
        """The run has ended."""
        self._lineage.active.discard(self)

    def cpu_ms(self) -> float:
        """CPU time of those that live, and of those that ended without anybody to wait for them."""
        living = {(one.pid, one.start): one for one in self._look()}
        family = {pid for pid, _ in self._seen} | {self._root}
        for identity, last in self._seen.items():
            # Whoever has waited for it counts its time as that of a child.
            if identity not in living and last.parent not in family:
                self._gone_ms += last.cpu_ms
        self._seen = living
        return self._gone_ms + sum(one.cpu_ms for one in living.values())

    def left(self) -> list[dict[str, Any]]:
        """Those that still run, the largest first, as the `processes` of a `done` event."""
        alive = [one for one in self._running() if (one.pid, one.start) not in self._killed]
        alive.sort(key=lambda one: -one.memory_bytes)
        return [
            {
                "pid": one.pid,
                "command": command_of(one.pid),
                "ageMs": age_ms(one.start),
                "memoryBytes": one.memory_bytes,
            }
            for one in alive[:PROCESSES_TOLD]
        ]

    def kill(self) -> None:
        """End them all. They are stopped first, so that none makes others meanwhile."""
        # They may take a moment to go.
        self._killed |= kill_all(self._running)

    def _running(self) -> list[Entry]:
        """Those that have not ended, without the shell or interpreter that holds the variables of the context."""
        return [one for one in self._look() if not one.ended and not (self._wrapped and one.parent == self._root)]

    def _look(self) -> list[Entry]:
        fresh = all_pids() - self._before
        if not fresh:
            return []
        table: dict[int, Entry | None] = {}
        known: dict[int, bool] = {}
        found = []
        for pid in fresh:
            one = _find(table, pid)
            if one is not None and pid != self._root and self._is_mine(one, table, known):
                found.append(one)
        return found

    def _is_mine(self, one: Entry, table: dict[int, Entry | None], known: dict[int, bool]) -> bool:
        path = [one]
        while True:
            head = path[-1]
            if head.pid in known:
                mine = known[head.pid]
                break
            if head.pid == self._root:
                mine = True
                break
            if head.parent == os.getpid():
                # The box server starts kernels and commands, and they are no run's. Now and then it adopts an orphan.
                mine = self._root in (head.session, head.group)
                break
            parent = _find(table, head.parent) if head.parent > 1 else None
            if parent is None or len(path) > len(table):
                mine = self._is_mine_alone(head, table)
                break
            path.append(parent)
        known.update((step.pid, mine) for step in path)
        return mine

    def _is_mine_alone(self, head: Entry, table: dict[int, Entry | None]) -> bool:
        """Whether a process without a parent is of this run."""
        if self._root in (head.session, head.group) or (head.pid, head.start) in self._seen:
            return True
        if head.pid in self._before or not _is_ours(head.pid):
            return False
        leader = _find(table, head.session)
        if leader is not None and leader.pid != head.pid and leader.pid in self._before:
            # It has stayed in the session of another kernel, command or terminal.
            return False
        return self._lineage.active <= {self}


def kill_all(find: Callable[[], list[Entry]]) -> set[Identity]:
    """End the processes that `find` answers. They are stopped first, so that none makes others meanwhile."""
    stopped: set[Identity] = set()
    for _ in range(_ROUNDS):
        found = {(one.pid, one.start) for one in find()}
        if found <= stopped:
            break
        for pid, _start in found - stopped:
            _send(pid, signal.SIGSTOP)
        stopped |= found
    for pid, _start in stopped:
        _send(pid, signal.SIGKILL)
    return stopped


def kill_strangers(callers: set[int]) -> None:
    """End what runs have started, wherever it is now. `callers`: the kernels and commands themselves, which are kept.

    Other children of this process do its own work, with what they have started: files, packing, new kernels.
    """
    me = os.getpid()

    def strangers() -> list[Entry]:
        table: dict[int, Entry | None] = {}
        above = {me, *_line(table, me)}
        found = []
        for pid in all_pids() - callers - above:
            one = _find(table, pid)
            line = [pid, *_line(table, pid)]
            own = me in line and line[line.index(me) - 1] not in callers
            if one is not None and not one.ended and not own and _is_ours(pid):
                found.append(one)
        return found

    kill_all(strangers)


def _line(table: dict[int, Entry | None], pid: int) -> list[int]:
    """The parent of a process, its parent, and so on."""
    line: list[int] = []
    while (one := _find(table, pid)) is not None and one.parent > 0 and one.parent not in line:
        pid = one.parent
        line.append(pid)
    return line


def _find(table: dict[int, Entry | None], pid: int) -> Entry | None:
    if pid not in table:
        table[pid] = entry(pid)
    return table[pid]


def _is_ours(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        # It has just ended.
        return False


def _send(pid: int, number: signal.Signals) -> None:
    # It may have ended meanwhile, or have become somebody else's.
    with contextlib.suppress(OSError):
        os.kill(pid, number)
