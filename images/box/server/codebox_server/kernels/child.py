"""A kernel whose code runs in a child process: restarts it when it has ended, and forwards its output."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ipykernel.kernelbase import Kernel

from codebox_server.bounds import ORIGINS_KNOWN
from codebox_server.kernels.environment import Changes, EnvironmentMixin, change
from codebox_server.kernels.replies import RepliesMixin
from codebox_server.kernels.variables import VariablesMixin, page_of

_READ_BYTES = 64 * 1024
_START_SECONDS = 20.0
_END_SECONDS = 2.0
_VARIABLES_SECONDS = 3.0
_CHANGE_SECONDS = 3.0


class ChildKernel(RepliesMixin, VariablesMixin, EnvironmentMixin, Kernel):
    """Base class of the Bash and JavaScript kernels. The child shares our process group, so signals that end us end it
    too.
    """

    implementation_version = "1"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._child: subprocess.Popen[bytes] | None = None
        self._readers: dict[int, Callable[[], bool]] = {}
        self._finished: asyncio.Future[dict[str, Any]] | None = None
        self._parent: Any = None
        # The requests of the last cells, by their numbers.
        self._requests: OrderedDict[int, Any] = OrderedDict()
        self._returncode: int | None = None
        self._variables: asyncio.Future[list[dict[str, Any]]] | None = None
        self._changed: asyncio.Future[None] | None = None
        # The child ended while no cell ran: the next reply reports it.
        self._unreported_loss = False
        self._starting: asyncio.Task[None] | None = None
        # A handler that does nothing, not SIG_IGN, as children would inherit that.
        signal.signal(signal.SIGINT, lambda *_: None)

    def start(self) -> None:
        """Serve, and start the child at once, so that the first cell finds it ready."""
        super().start()
        self.io_loop.add_callback(self._begin)

    def pre_handler_hook(self) -> None:
        """Do nothing: SIGINT is meant for the child, never for this process."""

    def post_handler_hook(self) -> None:
        """Do nothing, for the same reason."""

    # --- for the languages -------------------------------------------------------------------------------------

    def start_child(self) -> subprocess.Popen[bytes]:
        """Start the process and watch its descriptors."""
        raise NotImplementedError

    async def send_code(self, code: str, env: dict[str, str], silent: bool) -> None:
        """Pass a cell to the child; a silent one is not counted."""
        raise NotImplementedError

    def interrupt_child(self) -> None:
        """Abort the cell; called in the control thread."""
        raise NotImplementedError

    async def send_changes(self, changes: Changes) -> None:
        """Make the child change its environment and call `report_changed`."""
        raise NotImplementedError

    def request_variables(self) -> None:
        """Make the child report its variables to `report_variables`."""
        raise NotImplementedError

    # --- the protocol ------------------------------------------------------------------------------------------

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Run a cell in the child; the reply says `error` when it failed or the child ended."""
        self._parent = self.get_parent("shell")
        self._returncode = None
        await self._begin()
        result = await self._wait(lambda: self.send_code(code, _env(cell_meta), silent))
        self.drain()
        error = result.get("error")
        if error is not None and not silent:
            self.publish("error", {"ename": error["name"], "evalue": error["value"], "traceback": error["traceback"]})
        if error is not None:
            return {
                "status": "error",
                "execution_count": self.execution_count,
                "ename": error["name"],
                "evalue": error["value"],
                "traceback": error["traceback"],
            }
        if result.get("data") is not None and not silent:
            content = {"execution_count": self.execution_count, "data": result["data"], "metadata": {}}
            self.publish("execute_result", content)
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    async def list_variables(self, limit: int, after: str) -> dict[str, Any]:
        """See VariablesMixin. Raises TimeoutError when the child does not respond."""
        await self._begin()
        self._variables = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_VARIABLES_SECONDS):
                self.request_variables()
                found = {item["name"]: item for item in await self._variables}
        finally:
            self._variables = None
        names, following = page_of(sorted(found), limit, after)
        return {"items": [found[name] for name in names], "following": following}

    def report_variables(self, items: list[dict[str, Any]]) -> None:
        """Receive the variables of the child: `{name, type, preview, length?}` of each."""
        if self._variables is not None and not self._variables.done():
            self._variables.set_result(items)

    async def change_environment(self, changes: Changes) -> None:
        """See EnvironmentMixin. Raises TimeoutError when the child does not respond."""
        # A restarted child inherits the changes too.
        change(changes)
        await self._begin()
        self._changed = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_CHANGE_SECONDS):
                await self.send_changes(changes)
                await self._changed
        finally:
            self._changed = None

    def report_changed(self) -> None:
        """The child has applied the environment."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def finish_metadata(self, parent: Any, metadata: dict[str, Any], reply_content: Any) -> dict[str, Any]:
        """Report to the box server that the child has ended and the variables are lost."""
        if self._returncode is not None:
            metadata["codebox"] = {"childReturncode": self._returncode}
        elif self._unreported_loss:
            metadata["codebox"] = {"stateLost": True}
        self._unreported_loss = False
        return metadata

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Interrupt the child only; this process has nothing to interrupt."""
        if self._child is not None and self._finished is not None:
            self.interrupt_child()
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """End the child with the kernel."""
        if self._child is not None:
            self._child.kill()
        return {"status": "ok", "restart": restart}

    # --- the child ---------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Ensure that there is a child that accepts cells."""
        if self._child is None and self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        if self._starting is not None:
            try:
                await asyncio.shield(self._starting)
            finally:
                self._starting = None

    async def _start(self) -> None:
        async with asyncio.timeout(_START_SECONDS):
            await self._wait(self._launch)

    async def _launch(self) -> None:
        self._child = self.start_child()
        self._watch_exit(self._child)

    async def _wait(self, begin: Callable[[], Any]) -> dict[str, Any]:
        """Run `begin`, then wait until the child reports an end or has ended itself."""
        self._finished = asyncio.get_running_loop().create_future()
        try:
            await begin()
            return await self._finished
        finally:
            self._finished = None

    def finish(self, result: dict[str, Any]) -> None:
        """Record the end of a cell in the child: `{}`, `{data}` or `{error: {name, value, traceback}}`."""
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(result)

    def _watch_exit(self, child: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.run_in_executor(None, child.wait)
        waiter.add_done_callback(lambda done: self._on_exit(child, done.result()))

    def _on_exit(self, child: subprocess.Popen[bytes], returncode: int) -> None:
        if child is not self._child:
            return
        self._unreported_loss |= self._finished is None
        self._child, self._returncode = None, returncode
        self.drain()
        self._unwatch()
        self.close_child()
        name = "ExitStatus" if returncode >= 0 else signal.Signals(-returncode).name
        error = {"name": name, "value": str(returncode if returncode >= 0 else -returncode), "traceback": []}
        self.finish({"error": error})

    def close_child(self) -> None:
        """Release the resources of a child that has ended."""

    # --- its output --------------------------------------------------------------------------------------------

    def remember(self, cell: int) -> None:
        """Record the number of the current cell."""
        self._requests[cell] = {"header": self._parent["header"]}
        if len(self._requests) > ORIGINS_KNOWN:
            self._requests.popitem(last=False)

    def publish(self, kind: str, content: dict[str, Any], origin: int | None = None) -> None:
        """Send a message that belongs to the current cell, or to the last one when none runs.

        `origin` is the number of the earlier cell that it belongs to instead.
        """
        parent = self._parent if origin is None else self._requests.get(origin, self._parent)
        self.session.send(self.iopub_socket, kind, content, parent=parent, ident=self._topic(kind))

    def watch_stream(self, fd: int, name: str, noise: bytes | None = None) -> None:
        """Forward a descriptor as stdout or stderr, without the line `noise`."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def forward(data: bytes) -> None:
            text = decoder.decode(data.replace(noise, b"") if noise else data)
            if text:
                self.publish("stream", {"name": name, "text": text})

        self.watch(fd, forward)

    def watch(self, fd: int, receive: Callable[[bytes], None]) -> None:
        """Call `receive` with the data of a descriptor, which this kernel closes."""
        os.set_blocking(fd, False)
        loop = asyncio.get_running_loop()

        def read() -> bool:
            """Read once; True when there may be more."""
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return False
            if not data:
                loop.remove_reader(fd)
                return False
            receive(data)
            return True

        self._readers[fd] = read
        loop.add_reader(fd, read)

    def drain(self) -> None:
        """Forward what has been written so far. If a child writes without end, the event loop handles the rest."""
        for read in list(self._readers.values()):
            for _ in range(64):
                if not read():
                    break

    def _unwatch(self) -> None:
        loop = asyncio.get_running_loop()
        for fd in self._readers:
            loop.remove_reader(fd)
            os.close(fd)
        self._readers.clear()


def _env(cell_meta: dict[str, Any] | None) -> dict[str, str]:
    own = (cell_meta or {}).get("codebox")
    return own.get("env", {}) if isinstance(own, dict) else {}


def write_all(fd: int, data: bytes) -> None:
    """Write all data to a pipe; if the reader has gone, its exit is noticed elsewhere."""
    view = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while view:
            view = view[os.write(fd, view) :]
