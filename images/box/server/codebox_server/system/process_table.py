"""The processes of the box as /proc lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from codebox_server.system.process import read_small, stat_fields

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_COMMAND_CHARACTERS = 200


@dataclass(frozen=True)
class Entry:
    """One process. `start` (ticks since the host's start) distinguishes it from a later one with the same id."""

    pid: int
    ended: bool
    parent: int
    group: int
    session: int
    start: int
    # Its own CPU time, and that of the children that it waited for.
    cpu_ms: float
    memory_bytes: int
    threads: int


def all_pids() -> set[int]:
    """Return the ids of all visible processes."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def entry(pid: int) -> Entry | None:
    """Return a process, None when there is none with that id."""
    fields = stat_fields(pid)
    if fields is None:
        return None
    return Entry(
        pid=pid,
        ended=fields[0] in (b"Z", b"X"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        cpu_ms=sum(int(value) for value in fields[11:15]) * _TICK_MS,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
        threads=int(fields[17]),
    )


def age_ms(start: int) -> int:
    """Return the age of a process that started `start` ticks after the host."""
    seconds = float(read_small("/proc/uptime").split(maxsplit=1)[0])
    return max(0, round(seconds * 1000 - start * _TICK_MS))


def command_of(pid: int) -> str:
    """Return the command line, up to 200 characters; the name in the kernel's list for a process without one."""
    try:
        line = read_small(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
        line = line or read_small(f"/proc/{pid}/comm").strip()
    except OSError:
        # It has just ended.
        return ""
    return line.decode("utf-8", "replace")[:_COMMAND_CHARACTERS]
