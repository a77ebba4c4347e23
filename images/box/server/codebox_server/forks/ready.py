"""A fork server that is forked before this process becomes the box server: the interpreter is started only once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codebox_server.bounds import NICE
from codebox_server.forks import preload
from codebox_server.forks.newborn import become_kernel
from codebox_server.forks.process import ForkedProcess
from codebox_server.forks.renewal import renew
from codebox_server.forks.server import serve
from codebox_server.forks.wire import startup_variables
from codebox_server.settings import Settings
from codebox_server.system.cgroup import Cgroup
from codebox_server.system.memory import has_room

_PACKAGES = str(Path(__file__).parent.parent.parent)
_SCORE = "900"
_TITLE = b"python\0fork-server\0"


@dataclass(frozen=True)
class Waiting:
    """A process that waits for requests at the other end of the socket."""

    process: ForkedProcess
    socket: socket.socket

    def end(self) -> None:
        """End it unused."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class ReadyForkServer:
    """Its process, and the variables that counted at its start.

    `is_shared`: its memory is that of a parent of many boxes, and counts for none of them. Then there is also the
    process of the first kernel, which fulfils one request itself: that saves a fork.
    """

    server: Waiting
    startup: dict[str, str]
    is_shared: bool
    first: Waiting | None

    def end(self) -> None:
        """End it unused."""
        self.server.end()
        if self.first is not None:
            self.first.end()


def may_fork_early(settings: Settings) -> bool:
    """Whether kernels may be forked from this process.

    It was started without a home and without the working folder on its path, and has not seen the token: kernels
    inherit its flags, its modules and the environment of its start.
    """
    flags = sys.flags
    is_clean = flags.safe_path and not flags.no_user_site and "CODEBOX_TOKEN" not in os.environ
    # Nothing is logged by it.
    return bool(is_clean) and settings.log_level != "DEBUG" and has_room(Cgroup(settings.cgroup))


def fork_early() -> ReadyForkServer:
    """Load what both processes need, and return in this one. The libraries are loaded in the other one later."""
    preload.load_kernel()
    ready = fork_ready(startup_variables(dict(os.environ)), preload.steps(), is_shared=False)
    renew()
    return ready


def fork_ready(startup: dict[str, str], steps: Iterator[Callable[[], None]], *, is_shared: bool) -> ReadyForkServer:
    """Return in this process; the child serves until the socket is closed. `steps` are what it has yet to load."""
    server = _fork_waiting(steps, once=False)
    return ReadyForkServer(server, startup, is_shared, _fork_waiting(steps, once=True) if is_shared else None)


def _fork_waiting(steps: Iterator[Callable[[], None]], *, once: bool) -> Waiting:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid > 0:
        theirs.close()
        ours.setblocking(False)
        return Waiting(ForkedProcess(pid), ours)
    try:
        _serve(theirs, steps, once)
    finally:
        os._exit(1)


def _serve(peer: socket.socket, steps: Iterator[Callable[[], None]], once: bool) -> None:
    os.closerange(3, peer.fileno())
    os.closerange(peer.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    if not once:
        # A kernel makes a session of its own.
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
    job = serve(peer, steps, once)
    if job is not None:
        become_kernel(*job)


def _set_title(title: bytes) -> None:
    """Replace the command line that others see, which a fork shares with its parent."""
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    if 0 < len(title) <= end - begin:
        ctypes.memmove(begin, title.ljust(end - begin, b"\0"), end - begin)
