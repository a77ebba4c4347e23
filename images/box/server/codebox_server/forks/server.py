"""The fork server: loads libraries and forks kernels. It runs no code of the box and holds none of its data.

A kernel is not its child but its grandchild, whose parent ends at once: the box server, which adopts orphans
meanwhile, becomes the parent. So the exit status of a kernel is exact, and the fork server may end at any time.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator

from codebox_server.forks import preload
from codebox_server.forks.newborn import become_kernel
from codebox_server.forks.wire import ForkRequest, encode, receive_request

# Waiting requests go first: loading pauses for this long after a fork.
_PAUSE_SECONDS = 0.5


def serve(descriptor: int, home: str, loading: int) -> None:
    """Serve until the box server ends. In a forked kernel, this call continues as that kernel.

    The descriptor `loading` is closed when everything is loaded.
    """
    os.environ["HOME"] = home
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    preload.load_kernel()
    job = _await_fork(socket.socket(fileno=descriptor), preload.steps(), loading)
    if job is not None:
        become_kernel(*job)


def serve_loaded(peer: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """As `serve`, with everything loaded; returns the request that this process has to fulfil, or None at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    return _await_fork(peer, iter(()), None)


def _await_fork(
    peer: socket.socket, steps: Iterator[Callable[[], None]], loading: int | None
) -> tuple[ForkRequest, list[int]] | None:
    """Return the request that this process has to fulfil, in a forked child; None in the server at its end.

    `loading` is a descriptor to close after the last step.
    """
    pause = 0.0
    while True:
        step = next(steps, None)
        if step is None and loading is not None:
            preload.settle()
            os.close(loading)
        # Existing objects are shared with all kernels: a collection that touched them would copy their memory.
        gc.freeze()
        while select.select([peer], [], [], None if step is None else pause)[0]:
            request = receive_request(peer)
            if request is None:
                return None
            if _fork(peer, request[1]):
                peer.close()
                if step is not None and loading is not None:
                    os.close(loading)
                return request
            pause = _PAUSE_SECONDS
        pause = 0.0
        if step is not None:
            step()


def _fork(peer: socket.socket, descriptors: list[int]) -> bool:
    """Create the kernel's process and report its id. Returns True in that process, False here."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.close(writing)
            return True
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    for descriptor in descriptors:
        os.close(descriptor)
    number = os.read(reading, 32)
    os.close(reading)
    # From here on the kernel is a child of the box server.
    os.waitpid(between, 0)
    peer.sendall(encode({"pid": int(number or 0)}) + b"\n")
    return False
