"""Everything that was started in a terminal, including processes that left its session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

from codebox_server.bounds import KILL_AFTER_SECONDS
from codebox_server.system.process import session_of, starting_environment

# In the environment of everything that a terminal starts, so that daemons are found too.
MARK = "CODEBOX_TERMINAL"

_POLL_SECONDS = 0.05
_SESSION_END_SECONDS = 5.0


def members(session: int, terminal_id: str) -> list[int]:
    """Return the processes of a session, and those that were started with the mark of its terminal."""
    mark = f"{MARK}={terminal_id}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if session_of(pid) == session or mark in starting_environment(pid).split(b"\0")]


async def end_session(session: int, terminal_id: str) -> None:
    """Send SIGHUP, and kill what remains after 2 s. Waits until nothing is left, but only for some seconds."""
    begun = time.monotonic()
    hung_up: set[int] = set()
    while left := members(session, terminal_id):
        passed = time.monotonic() - begun
        if passed > _SESSION_END_SECONDS:
            return
        for pid in left:
            if passed >= KILL_AFTER_SECONDS:
                _send(pid, signal.SIGKILL)
            elif pid not in hung_up:
                # A stopped process handles the signal once it continues.
                _send(pid, signal.SIGHUP)
                _send(pid, signal.SIGCONT)
                hung_up.add(pid)
        await asyncio.sleep(_POLL_SECONDS)


def _send(pid: int, number: signal.Signals) -> None:
    # A process that has just ended needs no signal.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
