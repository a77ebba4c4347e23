"""The process that waits for gateways and forks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import socket
import time
from types import FrameType

from codebox_server.parent.entry import first_process, fork_into
from codebox_server.parent.loading import Loaded, load
from codebox_server.parent.newborn import become_box, report

# Gateways alone can enter this folder. It has the filter of boxes and two sockets. Each connection to `socket` is a
# request for a fork, which begins with the id of the first process of a box. A connection to `gateways` is held open by
# a gateway as long as it uses this process.
_FOLDER = "/run/parent"
_BACKLOG = 512
_REQUEST = re.compile(rb'\{"init":(\d{1,9})[,}]')
_LOOK_BYTES, _REQUEST_BYTES = 32, 64 * 1024
# Boxes must not share an address layout for ever.
_MAX_FORKS, _MAX_SECONDS = 1000, 24 * 3600.0
# Without a gateway for so long, as while one restarts, it ends.
_IDLE_SECONDS = 10.0
_HUGE = 2 * 1024 * 1024
_HUGE_ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
_MADV_COLLAPSE = 25

_libc = ctypes.CDLL(None)


def run() -> None:
    """Load everything, write a line to standard output, and fork a box server for each request.

    Ends when no gateway has used it for a while, or when it has forked enough.
    """
    os.umask(0o022)
    with open(f"{_FOLDER}/seccomp.bpf", "rb") as file:
        program = file.read()
    loaded = load()
    _be_single_threaded()
    if _may_use_huge_pages():
        _use_huge_pages()
    signal.signal(signal.SIGCHLD, _reap)
    requests, gateways = _listen("socket"), _listen("gateways")
    os.write(1, b"ready\n")
    _fork_while_used(requests, gateways, loaded, program)


def _listen(name: str) -> socket.socket:
    """Return a socket whose name appears only once it listens, so a refused connection means that it was closed."""
    path = f"{_FOLDER}/{name}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    # Its folder is the gateways' alone, which need not be root.
    os.chmod(f"{path}.new", 0o666)
    listener.listen(_BACKLOG)
    os.rename(f"{path}.new", path)
    return listener


def _fork_while_used(requests: socket.socket, gateways: socket.socket, loaded: Loaded, program: bytes) -> None:
    forks, started = 0, time.monotonic()
    listening, users, pending = [requests, gateways], list[socket.socket](), list[socket.socket]()
    idle_since = started
    while users or time.monotonic() - idle_since < _IDLE_SECONDS:
        if gateways in listening and (forks >= _MAX_FORKS or time.monotonic() - started > _MAX_SECONDS):
            # Gateways start another one, and what they have requested of this one is still done.
            listening.remove(gateways)
            for ended in (gateways, *users):
                ended.close()
            users, idle_since = [], time.monotonic()
        readable, _, _ = select.select([*listening, *users, *pending], [], [], _IDLE_SECONDS if users else 1.0)
        for ready in readable:
            if ready is requests:
                pending.append(requests.accept()[0])
            elif ready in pending:
                pending.remove(ready)
                _fork(ready, loaded, program)
                forks += 1
            elif ready is gateways:
                users.append(gateways.accept()[0])
            else:
                # A gateway sends nothing: it has ended.
                users.remove(ready)
                ready.close()
                idle_since = time.monotonic()


def _fork(connection: socket.socket, loaded: Loaded, program: bytes) -> None:
    """Fork a process for a request, of which this one looks at nothing but the id of the box's first process."""
    with connection:
        try:
            _be_single_threaded()
            with first_process(_look(connection)) as init:
                if fork_into(init) == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    become_box(connection, init, loaded, program)
        except (OSError, ValueError) as error:
            report(connection, error)
            # What is left unread would break the connection before the gateway has read the reason.
            with contextlib.suppress(OSError):
                connection.recv(_REQUEST_BYTES, socket.MSG_DONTWAIT)


def _look(connection: socket.socket) -> int:
    """Return the id of the first process, and leave the whole request to be read by the fork."""
    # A fork would notice this too, but only in the pid namespace of a box.
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    if poll.poll(0):
        raise ConnectionError("the gateway has given up")
    begun = _REQUEST.match(connection.recv(_LOOK_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    if not begun:
        raise ValueError("the request does not begin with the first process of a box")
    return int(begun[1])


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
