"""Describes variables in a copy of the kernel's process: whatever their code does, the kernel stays unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import time
from typing import Any

from codebox_server.kernels.python.description import describe, type_name, unknown

# Deadlines for all variables of one request, and for one variable.
_TOTAL_SECONDS = 3.0
_STALL_SECONDS = 0.7
# The memory that a copy may use in addition to the kernel's.
_EXTRA_BYTES = 128 << 20
_READ_BYTES = 256 * 1024
_LINE_BYTES = 64 * 1024


async def inspect(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return name, type and description of each value; only its type when its code fails, hangs or needs too much."""
    found: dict[str, dict[str, Any]] = {}
    left = dict(values)
    deadline = time.monotonic() + _TOTAL_SECONDS
    while left and time.monotonic() < deadline:
        try:
            await _inspect_in_copy(left, found, deadline)
        except OSError:
            # There is no room for another process: types have to do.
            break
        left = {name: value for name, value in left.items() if name not in found}
        # The first missing value kept its copy busy: the next copy begins after it.
        if left:
            left.pop(next(iter(left)))
    return [
        {"name": name, "type": type_name(value), **found.get(name, {"preview": unknown(value)})}
        for name, value in values.items()
    ]


async def _inspect_in_copy(values: dict[str, Any], found: dict[str, dict[str, Any]], deadline: float) -> None:
    """Add descriptions to `found`, in order, until all are there, the copy stalls or the time is over."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_copy(values, writing)
    os.close(writing)
    try:
        await _receive(reading, values, found, deadline)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        # Killed, it ends at once.
        os.waitpid(pid, 0)  # noqa: ASYNC222


async def _receive(reading: int, values: dict[str, Any], found: dict[str, dict[str, Any]], deadline: float) -> None:
    os.set_blocking(reading, False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    rest = b""
    loop.add_reader(reading, readable.set)
    try:
        while time.monotonic() < deadline and len(rest) < _LINE_BYTES:
            async with asyncio.timeout(min(_STALL_SECONDS, deadline - time.monotonic())):
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
        # It stalls, or code of a value writes to the wrong place; the caller ends it.
        return
    finally:
        loop.remove_reader(reading)


def _run_copy(values: dict[str, Any], writing: int) -> None:
    """Describe one value after the other; never returns. Other threads do not exist here, and nothing is printed."""
    try:
        _be_quiet(writing)
        for name, value in values.items():
            facts = _facts_of(value)
            data = json.dumps([name, facts]).encode() + b"\n"
            while data:
                data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _facts_of(value: Any) -> dict[str, Any]:
    try:
        return describe(value)
    except BaseException:
        # Whatever the code of the value raises, even an exit, only costs its preview.
        return {"preview": unknown(value)}


def _be_quiet(writing: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _EXTRA_BYTES, size + _EXTRA_BYTES))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "r+")  # noqa: SIM115
    sys.setswitchinterval(1)
