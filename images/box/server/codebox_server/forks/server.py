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


def run(descriptor: int, home: str) -> None:
    """Load what kernels need, and serve at a socket. In a forked kernel, this call continues as that kernel."""
    os.environ["HOME"] = home
    gc.disable()
    preload.load_kernel()
    job = serve(socket.socket(fileno=descriptor), preload.steps())
    if job is not None:
        become_kernel(*job)


def serve(
    peer: socket.socket, steps: Iterator[Callable[[], None]], once: bool = False
) -> tuple[ForkRequest, list[int]] | None:
    """Serve until the box server ends; then return None. In a forked process, return the request that it has to fulfil.

    `steps` load the libraries, once the box server asks for them. `once`: the first request is fulfilled by this
    process, which has to be a child of the box server.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    # Closed when everything is loaded; None while nothing is being loaded.
    loading: int | None = None
    pause = 0.0
    while True:
        # Existing objects are shared with all kernels: a collection that touched them would copy their memory.
        gc.freeze()
        while select.select([peer], [], [], None if loading is None else pause)[0]:
            message = receive_request(peer)
            if message is None:
                return None
            request, descriptors = message
            if request is None:
                loading, pause = descriptors[0], 0.0
            elif _stay(peer) if once else _fork(peer, descriptors):
                peer.close()
                if loading is not None:
                    os.close(loading)
                return request, descriptors
            else:
                pause = _PAUSE_SECONDS
        pause = 0.0
        step = next(steps, None)
        if step is not None:
            step()
        elif loading is not None:
            os.close(loading)
            loading = None


def _stay(peer: socket.socket) -> bool:
    """Report this process as the kernel's."""
    _report(peer, os.getpid())
    return True


def _report(peer: socket.socket, pid: int) -> None:
    peer.sendall(encode({"pid": pid}) + b"\n")


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
    _report(peer, int(number or 0))
    return False
