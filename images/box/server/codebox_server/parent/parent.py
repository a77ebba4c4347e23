"""The process that waits for gateways and forks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
from types import FrameType

from codebox_server.parent.loading import load
from codebox_server.parent.newborn import become_box

# Only the sandbox of this process has this folder.
_SOCKET = "/run/parent/socket"
_FILTER = "/run/parent/seccomp.bpf"
_BACKLOG = 512
_HUGE = 2 * 1024 * 1024
_HUGE_ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
_MADV_COLLAPSE = 25

_libc = ctypes.CDLL(None)


def run() -> None:
    """Load everything, write the id of this process to standard output, and fork a box server for each connection.

    Ends with the gateway, which holds standard input open.
    """
    os.umask(0o022)
    with open(_FILTER, "rb") as file:
        program = file.read()
    loaded = load()
    _be_single_threaded()
    if _may_use_huge_pages():
        _use_huge_pages()
    signal.signal(signal.SIGCHLD, _reap)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(_SOCKET)
    # Its folder is the gateway's alone, which need not be root.
    os.chmod(_SOCKET, 0o666)
    listener.listen(_BACKLOG)
    os.write(1, f"{os.getpid()}\n".encode())
    while True:
        readable, _, _ = select.select([listener.fileno(), 0], [], [])
        if 0 in readable:
            return
        connection, _ = listener.accept()
        try:
            _be_single_threaded()
            pid = os.fork()
        except OSError:
            # The host has no room for a process: the gateway learns of it by the end of the connection.
            pid = -1
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become_box(connection, loaded, program)
        connection.close()


def _be_single_threaded() -> None:
    """Other threads would be missing in a child, with whatever they hold.

    Those of OpenBLAS end before a fork, and come back only when they are needed.
    """
    if _threads() > 1:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        # The handler of SIGCHLD may have been faster.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    if _threads() > 1:
        raise SystemExit("a library has started a thread: nothing can be forked")


def _may_use_huge_pages() -> bool:
    """Whether this host has them: the advice below would override an administrator who has turned them off."""
    try:
        with open(_HUGE_ENABLED, encoding="ascii") as file:
            return "[never]" not in file.read()
    except OSError:
        return False


def _use_huge_pages() -> None:
    """Let a fork copy the tables of a few huge pages instead of thousands of small ones; a kernel may not offer it."""
    with open("/proc/self/maps", encoding="utf8") as file:
        lines = [line.split() for line in file]
    for area, mode, *_, path in (line if len(line) > 5 else [*line, ""] for line in lines):
        if mode == "rw-p" and path in ("", "[heap]"):
            begin, end = (int(number, 16) for number in area.split("-"))
            begin, end = -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
            if begin < end:
                _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_COLLAPSE)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _reap(_number: int, _frame: FrameType | None) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        # None is left.
        return
