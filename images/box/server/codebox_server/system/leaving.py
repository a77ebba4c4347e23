"""The end of this process. Where it is not a child of the one that waits for it, its exit code is written to a pipe."""

from __future__ import annotations

import atexit
import os
import threading

_pipe: int | None = None
_waiting: set[int] = set()


def report_to(pipe: int, waiting: int) -> None:
    """Write the exit code to this descriptor at the end; a process of the box waits for it and then ends the box."""
    global _pipe
    _pipe = pipe
    _waiting.add(waiting)


def waiting() -> set[int]:
    """Return that process, if there is one."""
    return _waiting


def leave(code: int) -> None:
    """End as an interpreter does, without taking every module apart, which would copy the memory that forks share."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    leave_now(code)


def leave_now(code: int) -> None:
    """End at once."""
    if _pipe is not None:
        os.write(_pipe, f"{code}\n".encode())
    os._exit(code)
