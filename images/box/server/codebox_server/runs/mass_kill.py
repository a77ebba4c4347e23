"""Kills many processes at once, some of which fork faster than they can be killed one by one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from codebox_server.system import leaving
from codebox_server.system.process_table import Entry, all_pids, entry

# How often to look for new processes, and how often to repeat everything.
_ROUNDS = 50
_PASSES = 3

Identity = tuple[int, int]
Table = dict[int, Entry | None]


def kill_all(look: Callable[[], list[Entry]]) -> set[Identity]:
    """Kill the processes that `look` returns. They are stopped first, until none is left that could fork."""
    killed: set[Identity] = set()
    for _ in range(_PASSES):
        standing = _stop(look, killed)
        for pid, _start in standing:
            _send(pid, signal.SIGKILL)
        if not standing:
            break
        killed |= standing
    return killed


def _stop(look: Callable[[], list[Entry]], known: set[Identity]) -> set[Identity]:
    stopped: set[Identity] = set()
    for _ in range(_ROUNDS):
        found = {(one.pid, one.start) for one in look()} - known - stopped
        if not found:
            break
        for pid, _start in found:
            _send(pid, signal.SIGSTOP)
        stopped |= found
    return stopped


def user_processes(callers: set[int]) -> list[Entry]:
    """Return what runs and terminals have started, wherever it is now. `callers`: their own processes, which are left
    out.

    Other children of this process do its own work, including what they start: files, packing, new kernels. They lead
    sessions; an orphan that this process adopted by chance does not.
    """
    me = os.getpid()
    table: Table = {}
    above = {me, *_line(table, me), *leaving.waiting()}
    found = []
    for pid in all_pids() - callers - above:
        one = find(table, pid)
        line = [pid, *_line(table, pid)]
        head = line[line.index(me) - 1] if me in line else None
        if one is not None and not one.ended and not _is_own(table, head, callers) and is_ours(pid):
            found.append(one)
    return found


def _is_own(table: Table, head: int | None, callers: set[int]) -> bool:
    if head is None or head in callers:
        return False
    leader = find(table, head)
    return leader is not None and leader.session == head


def find(table: Table, pid: int) -> Entry | None:
    """Return the entry of a process, read once."""
    if pid not in table:
        table[pid] = entry(pid)
    return table[pid]


def is_ours(pid: int) -> bool:
    """Whether a process runs as the user of the box."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        # It has just ended.
        return False


def _line(table: Table, pid: int) -> list[int]:
    """Return the ancestors of a process, nearest first."""
    line: list[int] = []
    while (one := find(table, pid)) is not None and one.parent > 0 and one.parent not in line:
        pid = one.parent
        line.append(pid)
    return line


def _send(pid: int, number: signal.Signals) -> None:
    # It may have ended meanwhile, or its id may have been reused.
    with contextlib.suppress(OSError):
        os.kill(pid, number)
