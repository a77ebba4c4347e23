"""A fork server that is forked with its libraries loaded, before this process becomes the box server."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from codebox_server.bounds import NICE
from codebox_server.forks.newborn import become_kernel
from codebox_server.forks.process import ForkedProcess
from codebox_server.forks.server import serve_loaded

_PACKAGES = str(Path(__file__).parent.parent.parent)
_SCORE = "900"
_TITLE = b"python\0fork-server\0"


@dataclass(frozen=True)
class ReadyForkServer:
    """Its process, the socket for requests, and the variables that counted when its libraries were loaded."""

    process: ForkedProcess
    socket: socket.socket
    startup: dict[str, str]

    def end(self) -> None:
        """End it unused."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


def fork_ready(startup: dict[str, str]) -> ReadyForkServer:
    """Return in this process; the child serves until the socket is closed."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid > 0:
        theirs.close()
        ours.setblocking(False)
        return ReadyForkServer(ForkedProcess(pid), ours, startup)
    try:
        _serve(theirs)
    finally:
        os._exit(1)


def _serve(peer: socket.socket) -> None:
    os.closerange(3, peer.fileno())
    os.closerange(peer.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    os.chdir("/")
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    _set_title(_TITLE)
    # As a kernel that is started: at the end of the path.
    sys.path.append(_PACKAGES)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # The box server outlives its kernels; some hosts do not support this.
        file.write(_SCORE)
    job = serve_loaded(peer)
    if job is not None:
        become_kernel(*job)


def _set_title(title: bytes) -> None:
    """Replace the command line that others see, which a fork shares with its parent."""
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    if 0 < len(title) <= end - begin:
        ctypes.memmove(begin, title.ljust(end - begin, b"\0"), end - begin)
