"""For a moment this process is the parent of every orphan below it, so that a forked kernel becomes its child."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator

from codebox_server.system.process import read_small

_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
# What this process has started itself is collected as it ends; what is still there after this was adopted by chance.
_STRAY_SECONDS = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


class Adoption:
    """Use as `with adoption.open():`. Raises OSError where the system cannot do that."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._open = 0
        self._before = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Adopt until the end of the block; blocks may overlap."""
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
        """Bury orphans of others that came to this process during an earlier block."""
        now = time.monotonic()
        dead = [pid for pid in _children() if _is_zombie(pid)]
        self._seen = {pid: self._seen.get(pid, now) for pid in dead}
        for pid, since in self._seen.items():
            if now - since > _STRAY_SECONDS:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def is_child(pid: int) -> bool:
    """Whether a process, ended or not, is a child of this one."""
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
        # A host that does not list them: strays stay until this process ends.
        return found
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return read_small(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        # Gone meanwhile.
        return False
