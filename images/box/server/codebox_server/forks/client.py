"""The box server's side of the fork server: starts it in the background, requests kernels, restarts it when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from codebox_server.bounds import FORK_SECONDS, FORK_SERVER_PAUSE_SECONDS, FORK_SERVER_PAUSE_SECONDS_MAX
from codebox_server.forks.adoption import Adoption, is_child
from codebox_server.forks.preload import FOR_THE_SERVER, LIBRARIES
from codebox_server.forks.process import ForkedProcess
from codebox_server.forks.ready import ReadyForkServer, Waiting
from codebox_server.forks.wire import (
    LENGTH,
    ForkRequest,
    code_variables,
    encode,
    settings_variables,
    startup_variables,
)
from codebox_server.packages.sources import user_site
from codebox_server.system.process import reap, watch_exit

_LAUNCH = str(Path(__file__).parent.parent / "kernels" / "launch.py")
# A home without packages: the fork server must not load packages that code of the box installed.
_NO_HOME = "/nonexistent"
# After a life of this length, the next start is not delayed further.
_LONG_LIFE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class ForkServer:
    """Forks kernels. `fork` returns None whenever a normal start is needed instead.

    `enabled`: whether the box has the memory for one of its own. One that is shared needs none.
    """

    def __init__(self, enabled: bool, logs: bool, ready: ReadyForkServer | None = None) -> None:
        self._enabled = enabled
        self._logs = logs
        self._startup: dict[str, str] = {}
        self._base: dict[str, str] = {}
        # One that waits for its first use.
        self._ready = ready
        self._shared = ready.server.process if ready is not None and ready.is_shared else None
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._socket: socket.socket | None = None
        # The process of the first kernel, until it is requested.
        self._first: Waiting | None = None
        self._started_at = 0.0
        self._pause = FORK_SERVER_PAUSE_SECONDS
        self._asking = asyncio.Lock()
        self._adoption = Adoption()
        # Whether the libraries were asked for, and set while none is being loaded.
        self._loads = False
        self._loaded = asyncio.Event()
        self._loaded.set()

    def start(self, base: dict[str, str], env: dict[str, str]) -> None:
        """Start it in the environment `base`, with the library settings of `env`, which kernels will have. It forks
        kernels at once.

        Variables that could load code come from `base` alone. Does nothing when it was started before.
        """
        if self._base:
            return
        self._base, self._startup = base, _startup_of(base, env)
        self._begin()

    def renew(self, base: dict[str, str], env: dict[str, str]) -> None:
        """Restart it when settings have changed; do nothing before its first start."""
        startup = _startup_of(base, env)
        if self._base and startup != self._startup:
            self._base, self._startup = base, startup
            self._kill()

    def allow(self, enabled: bool) -> None:
        """Set whether the box has the memory for one of its own from now on."""
        if enabled == self._enabled:
            return
        self._enabled = enabled
        if not enabled and self._process is not self._shared:
            self._kill()
        elif self._base and self._process is None:
            self._begin()

    @property
    def is_ready(self) -> bool:
        """Whether a start would cost nothing."""
        return self._ready is not None

    async def load(self) -> None:
        """Let it load the libraries of kernels, and wait until it has. Returns at once when there is none, and when it
        ends meanwhile.
        """
        async with self._asking:
            if not self._loads:
                self._loads = True
                self._ask_for_libraries()
        await self._loaded.wait()

    def _ask_for_libraries(self) -> None:
        """Ask at a moment when no other request is being sent."""
        if self._socket is None:
            return
        # The other end is closed when everything is loaded, or with the process.
        reading, writing = os.pipe()
        body = encode(None)
        # One that has ended is started again, and asked again.
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [LENGTH.pack(len(body)) + body], [writing])
        os.close(writing)
        self._follow_loading(reading)

    async def fork(self, request: ForkRequest, descriptors: list[int]) -> int | None:
        """Return the process id of a kernel that has bound its sockets, has the descriptors and is a child of this
        process.
        """
        if self._socket is None or not self._fits(request):
            return None
        first, self._first = self._first, None
        if first is not None:
            with first.socket:
                pid = await self._fork_from(first.socket, request, descriptors)
            if pid is not None:
                return pid
            first.end()
        pid = await self._fork_from(self._socket, request, descriptors)
        if pid is None:
            self._kill()
        return pid

    async def _fork_from(self, peer: socket.socket | None, request: ForkRequest, descriptors: list[int]) -> int | None:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            newborn: int | None = None
            try:
                async with asyncio.timeout(FORK_SECONDS):
                    with theirs:
                        newborn = await self._ask(peer, request, [theirs.fileno(), *descriptors])
                    await _await_ready(ours)
                    pid, newborn = newborn, None
                    return pid
            except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
                _log.warning("no kernel came from the fork server: %r", error)
                return None
            finally:
                if newborn is not None:
                    # Nobody waits for it any more, and the kernel that replaces it uses the same sockets.
                    _end(newborn)

    async def _ask(self, peer: socket.socket | None, request: ForkRequest, descriptors: list[int]) -> int:
        loop = asyncio.get_running_loop()
        async with self._asking:
            if peer is None:
                raise ConnectionError("the fork server has ended")
            body = encode(request)
            with self._adoption.open():
                socket.send_fds(peer, [LENGTH.pack(len(body))], descriptors)
                await loop.sock_sendall(peer, body)
                reply = await loop.sock_recv(peer, 256)
            pid = int(json.loads(reply)["pid"])
        if not is_child(pid):
            raise ConnectionError("the fork server named a process that is not a child of this one")
        return pid

    def _fits(self, request: ForkRequest) -> bool:
        """Whether a fork would equal a new process: the same start-up variables, and no module that shadows a loaded
        one.
        """
        if startup_variables(request["env"]) != self._startup:
            return False
        cwd = request["cwd"]
        names = {name.partition(".")[0] for name in (*LIBRARIES, *FOR_THE_SERVER)}
        folders = (cwd, user_site(Path(request["env"].get("HOME", cwd))))
        hiding = (f"{folder}/{name}{end}" for folder in folders for name in names for end in ("", ".py"))
        settings = (f"{cwd}/matplotlibrc", f"{request['env'].get('MPLCONFIGDIR', cwd)}/matplotlibrc")
        return os.path.isdir(cwd) and not any(map(os.path.exists, (*hiding, *settings)))

    # --- lifecycle ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        ready, self._ready = self._ready, None
        if ready is None:
            return self._spawn()
        may_run = self._enabled or ready.is_shared
        if may_run and not self._logs and ready.startup == self._startup:
            self._first = ready.first
            return self._follow(ready.server.process, ready.server.socket)
        ready.end()
        return self._spawn()

    def _spawn(self) -> None:
        if not self._enabled:
            return
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output = None if self._logs else subprocess.DEVNULL
        environment = {name: value for name, value in self._base.items() if name not in startup_variables(self._base)}
        home = self._startup.get("HOME", _NO_HOME)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", _LAUNCH, "fork-server", str(theirs.fileno()), home],
                cwd="/",
                env={**environment, **self._startup, "HOME": _NO_HOME},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._follow(process, ours)

    def _follow(self, process: subprocess.Popen[bytes] | ForkedProcess, ours: socket.socket) -> None:
        self._process, self._socket = process, ours
        self._started_at = time.monotonic()
        watch_exit(process.pid, lambda: self._on_exit(process))
        if self._loads:
            self._ask_for_libraries()

    def _follow_loading(self, descriptor: int) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        self._loaded = done

        def end() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            done.set()

        loop.add_reader(descriptor, end)

    def _kill(self) -> None:
        if self._first is not None:
            self._first.end()
            self._first = None
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    def _on_exit(self, process: subprocess.Popen[bytes] | ForkedProcess) -> None:
        death = reap(process.pid)
        process.returncode = death.returncode if death is not None else -int(signal.SIGKILL)
        if self._socket is not None:
            self._socket.close()
        self._process = self._socket = None
        lived = time.monotonic() - self._started_at
        # A server that ends again and again must not keep the CPU busy.
        short = lived < _LONG_LIFE_SECONDS
        self._pause = min(self._pause * 2, FORK_SERVER_PAUSE_SECONDS_MAX) if short else FORK_SERVER_PAUSE_SECONDS
        asyncio.get_running_loop().call_later(self._pause, self._respawn)

    def _respawn(self) -> None:
        if self._process is None:
            self._spawn()


def _startup_of(base: dict[str, str], env: dict[str, str]) -> dict[str, str]:
    return {**code_variables(base), **settings_variables(env)}


def _end(pid: int) -> None:
    """Kill a child and reap it."""
    os.kill(pid, signal.SIGKILL)
    watch_exit(pid, lambda: reap(pid))


async def _await_ready(channel: socket.socket) -> None:
    """Let the new process begin, and wait until it serves or has ended, which closes the channel."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(channel, b"g")
    await loop.sock_recv(channel, 1)
