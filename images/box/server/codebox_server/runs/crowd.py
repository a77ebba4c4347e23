"""Watches for a box that is full of processes: finds out whose they are and ends them, so that others can run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from codebox_server.bounds import CROWD_LOOK_SECONDS, CROWD_LOOKS, CROWD_PATIENCE, CROWD_SHARE, ROOM_SECONDS
from codebox_server.errors import BoxError, full
from codebox_server.runs.descendants import Lineage
from codebox_server.runs.mass_kill import kill_all, user_processes
from codebox_server.system.cgroup import Cgroup, rose
from codebox_server.system.process_table import Entry, entry

_log = logging.getLogger(__name__)
_Started = TypeVar("_Started")


class Crowd:
    """Checks periodically whether the box is full and keeps refusing processes.

    `callers` returns the kernels, commands and shells of terminals. Processes that fill the box are ended, shells
    are not.
    """

    def __init__(self, cgroup: Cgroup, lineage: Lineage, callers: Callable[[], set[int]]) -> None:
        self._cgroup = cgroup
        self._lineage = lineage
        self._callers = callers

    async def watch(self) -> None:
        """Check until the server ends."""
        refused, looks, since = self._cgroup.counts().refused, 0, 0
        while True:
            await asyncio.sleep(CROWD_LOOK_SECONDS)
            self._cgroup.look()
            before, refused = refused, self._cgroup.counts().refused
            is_new, since = rose(before, refused), since + 1
            if not self._cgroup.crowded() or (not is_new and since > CROWD_PATIENCE):
                looks = 0
            elif is_new:
                looks, since = looks + 1, 0
            # Code that hits the limit once sees an error, and may continue with what it has.
            if looks >= CROWD_LOOKS:
                self.relieve()
                looks = 0

    async def making_room(self, start: Callable[[], Awaitable[_Started]]) -> _Started:
        """Return the result of `start`, which is retried when the box is full. Raises too_many_requests."""
        try:
            return await start()
        except (BlockingIOError, BoxError) as error:
            if not _is_full(error):
                raise
        self.relieve()
        for _ in range(10):
            if not self._cgroup.crowded():
                break
            await asyncio.sleep(ROOM_SECONDS / 10)
        try:
            return await start()
        except BlockingIOError:
            raise full() from None

    def relieve(self) -> None:
        """End the runs, kernels or leftovers with a large share of the process limit, or otherwise the largest."""
        callers = self._callers()
        runs = {run: run.running() for run in self._lineage.active}
        own = {run: _family(run.root, callers) for run in runs}
        shares = {run: _weight(members) + _weight(own[run]) for run, members in runs.items()}
        busy = {one.pid for family in own.values() for one in family}
        idle = [one for one in map(entry, callers - busy) if one is not None]
        left = self._left()
        largest = max([_weight(left), *shares.values(), *(one.threads for one in idle)])
        bound = min(largest, (self._cgroup.most_pids() or 0) * CROWD_SHARE)
        for run, share in shares.items():
            if share >= bound:
                _log.warning("a run fills the box with %s processes and threads: it is ended", share)
                run.end()
                run.kill()
        for one in idle:
            if one.threads >= bound:
                _log.warning("a kernel fills the box with %s threads: it is ended", one.threads)
                with contextlib.suppress(OSError):
                    os.kill(one.pid, signal.SIGKILL)
        if left and _weight(left) >= bound:
            _log.warning("what runs have left fills the box with %s processes: it is ended", len(left))
            kill_all(self._left)

    def _left(self) -> list[Entry]:
        """Return processes that belong to no active run."""
        found = user_processes(self._callers())
        known = {one.pid for run in self._lineage.active for one in run.running()}
        return [one for one in found if one.pid not in known]


def _family(root: int, callers: set[int]) -> list[Entry]:
    """Return a kernel or command, with the process in which it runs code."""
    entries = [one for one in map(entry, callers | {root}) if one is not None]
    return [one for one in entries if root in (one.pid, one.parent)]


def _is_full(error: Exception) -> bool:
    return isinstance(error, BlockingIOError) or isinstance(error.__cause__, BlockingIOError)


def _weight(members: list[Entry]) -> int:
    return sum(one.threads for one in members)
