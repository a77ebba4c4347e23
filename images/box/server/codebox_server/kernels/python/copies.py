"""Works on variables in a copy of the kernel's process: whatever their code does, the kernel stays unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_READ_BYTES = 256 * 1024
_LINE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Bounds:
    """The time for all variables and for one, and the memory that a copy may use in addition to the kernel's."""

    total_seconds: float
    stall_seconds: float
    extra_bytes: int


Work = Callable[[str, Any], dict[str, Any]]


async def in_copies(values: dict[str, Any], work: Work, bounds: Bounds) -> dict[str, dict[str, Any]]:
    """Return what `work(name, value)` returns for each value; nothing for one that ends or stalls its copy."""
    found: dict[str, dict[str, Any]] = {}
    left = dict(values)
    deadline = time.monotonic() + bounds.total_seconds
    while left and time.monotonic() < deadline:
        try:
            await _work_in_copy(left, work, found, bounds, deadline)
        except OSError:
            # There is no room for another process.
            break
        left = {name: value for name, value in left.items() if name not in found}
        # The first missing value kept its copy busy: the next copy begins after it.
        if left:
            left.pop(next(iter(left)))
    return found


async def _work_in_copy(
    values: dict[str, Any], work: Work, found: dict[str, dict[str, Any]], bounds: Bounds, deadline: float
) -> None:
    """Add results to `found`, in order, until all are there, the copy stalls or the time is over."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_copy(values, work, bounds.extra_bytes, writing)
    os.close(writing)
    try:
        await _receive(reading, values, found, bounds.stall_seconds, deadline)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        # Killed, it ends at once.
        os.waitpid(pid, 0)  # noqa: ASYNC222


async def _receive(
    reading: int, values: dict[str, Any], found: dict[str, dict[str, Any]], stall_seconds: float, deadline: float
) -> None:
    os.set_blocking(reading, False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    rest = b""
    loop.add_reader(reading, readable.set)
    try:
        while time.monotonic() < deadline and len(rest) < _LINE_BYTES:
            async with asyncio.timeout(min(stall_seconds, deadline - time.monotonic())):
                await readable.wait()
            readable.clear()
            try:
                data = os.read(reading, _READ_BYTES)
            except BlockingIOError:
                # Woken for data that has been read already.
                continue
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                name, facts = json.loads(line)
                if name in values and isinstance(facts, dict):
                    found[name] = facts
    except (TimeoutError, ValueError, TypeError):
        # It stalls, or the code of a value writes to the wrong place: the caller ends this copy.
        return
    finally:
        loop.remove_reader(reading)


def _run_copy(values: dict[str, Any], work: Work, extra_bytes: int, writing: int) -> None:
    """Work on one value after the other; never returns. Other threads do not exist here, and nothing is printed."""
    try:
        _be_quiet(extra_bytes)
        for name, value in values.items():
            data = json.dumps([name, work(name, value)]).encode() + b"\n"
            while data:
                data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _be_quiet(extra_bytes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + extra_bytes, size + extra_bytes))
    # If the box runs out of memory, the copy is killed, not the kernel.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "r+")  # noqa: SIM115
    sys.setswitchinterval(1)
