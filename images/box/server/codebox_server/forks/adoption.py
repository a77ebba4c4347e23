"""Makes this process the parent of every orphan below it for a moment, so that a forked kernel becomes its child."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator

from codebox_server.system.process import read_small

_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
# Children that this process started are reaped as they end; a dead child that remains after this time was adopted by
# chance.
_STRAY_SECONDS = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


class Adoption:
    """Use as `with adoption.open():`. Raises OSError where the system does not support it."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._open = 0
        self._before = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Adopt orphans until the end of the block; blocks may overlap."""
        self._collect_strays()
        if self._open == 0:
            before = ctypes.c_int()
            _prctl(_GET_CHILD_SUBREAPER, ctypes.byref(before))
            self._before = before.value
            _prctl(_SET_CHILD_SUBREAPER, 1)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if self._open == 0:
                _prctl(_SET_CHILD_SUBREAPER, self._before)

    def _collect_strays(self) -> None:
        """Reap orphans of others that this process adopted during an earlier block."""
        now = time.monotonic()
        dead = [pid for pid in _children() if _is_zombie(pid)]
        self._seen = {pid: self._seen.get(pid, now) for pid in dead}
        for pid, since in self._seen.items():
            if now - since > _STRAY_SECONDS:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def is_child(pid: int) -> bool:
    """Whether a process, running or ended, is a child of this one."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return True


def _prctl(option: int, value: object) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system cannot adopt orphans")


def _children() -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            found += map(int, read_small(f"/proc/self/task/{task}/children").split())
    except OSError:
        # The host does not list children: strays stay until this process ends.
        return found
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return read_small(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        # It has ended meanwhile.
        return False
