"""The Python kernel: ipykernel's, which also lists variables and accepts a new environment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from ipykernel import ipkernel, kernelbase
from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import StdinNotImplementedError

from codebox_server.kernels.environment import EnvironmentMixin
from codebox_server.kernels.outstream import note_begin
from codebox_server.kernels.python.description import variable_names
from codebox_server.kernels.python.inspection import inspect
from codebox_server.kernels.python.ready_shell import adopt, belong_to
from codebox_server.kernels.python.saving import check, load, save
from codebox_server.kernels.replies import RepliesMixin
from codebox_server.kernels.variables import SAVED, VariablesMixin, page_of


@lru_cache(4)
def _accepted(method: Callable[..., Any], names: tuple[str, ...]) -> dict[str, bool]:
    return kernelbase._accepts_parameters(method, list(names))


# ipykernel examines the signature of the same method for each cell.
ipkernel._accepts_parameters = lambda method, names: _accepted(method, tuple(names))  # type: ignore[attr-defined]


class _NoSubshells:
    """Replaces the thread of ipykernel's subshells: false, and it knows the thread that runs cells."""

    def __init__(self) -> None:
        self.parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


class PythonKernel(RepliesMixin, VariablesMixin, EnvironmentMixin, IPythonKernel):
    """IPython."""

    _supports_kernel_subshells = False
    shell: ZMQInteractiveShell

    def __init__(self, **kwargs: Any) -> None:
        # ipykernel takes the shell of this process if there is one.
        shell = adopt(kwargs["parent"].config)
        # ipykernel would ask every loaded module for its file, for a debugger that is not there. To touch all modules
        # would copy the memory that forks share.
        ipkernel.sys = SimpleNamespace(modules={})  # type: ignore[assignment, attr-defined]
        try:
            super().__init__(**kwargs)
        finally:
            ipkernel.sys = sys  # type: ignore[attr-defined]
        if shell is not None:
            belong_to(shell, self)
        self.shell_handlers[SAVED] = self.saved_variables_request
        # A cell that awaits is interrupted in this thread.
        self.shell_channel_thread = _NoSubshells()

    async def do_execute(self, code: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As in stock ipykernel, in the folder of the request if it names one."""
        own = self.get_parent("shell").get("metadata", {}).get("codebox")
        folder = own.get("folder") if isinstance(own, dict) else None
        if folder is None:
            return await super().do_execute(code, *args, **kwargs)
        before = os.getcwd()
        try:
            os.chdir(folder)
        except OSError:
            # The code must not run elsewhere: the error is that of the cell.
            code = f"__import__('os').chdir({folder!r})"
        try:
            return await super().do_execute(code, *args, **kwargs)
        finally:
            with suppress(OSError):
                os.chdir(before)

    @contextmanager
    def _cancel_on_sigint(self, future: asyncio.Task[Any]) -> Iterator[None]:
        """As in stock ipykernel, SIGINT cancels a cell that awaits; in addition, code that computes in the event loop
        is stopped.
        """
        loop = asyncio.get_running_loop()

        def on_sigint(_number: int, frame: FrameType | None) -> None:
            computes = self._runs_code_of_cells(frame)
            if computes and asyncio.current_task(loop) is future:
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(future.cancel)
            if computes:
                # Another task or a callback: KeyboardInterrupt would leave the event loop and end the kernel.
                raise asyncio.CancelledError

        before = signal.signal(signal.SIGINT, on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _runs_code_of_cells(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_globals is self.shell.user_ns:
                return True
            frame = frame.f_back
        return False

    def _publish_execute_input(self, code: str, parent: Any, execution_count: int) -> None:
        # As in stock ipykernel, and recorded also for the case that the code ends the kernel before this is sent.
        metadata = note_begin(parent, execution_count)
        content = {"code": code, "execution_count": execution_count}
        topic = self._topic("execute_input")
        self.session.send(self.iopub_socket, "execute_input", content, parent=parent, ident=topic, metadata=metadata)

    def raw_input(self, prompt: str = "") -> str:
        """As in stock ipykernel, with an error that says what to do when nobody can answer."""
        self._need_answers("input()")
        return str(super().raw_input(prompt))

    def getpass(self, prompt: str = "", stream: Any = None, **options: Any) -> str:
        """As `raw_input`, for a password."""
        self._need_answers("getpass()")
        return str(super().getpass(prompt, stream, **options))

    def _need_answers(self, call: str) -> None:
        if not self._allow_stdin:
            raise StdinNotImplementedError(f"{call} has no one to answer it here: send `stdin`, or use a box")

    async def list_variables(self, limit: int, after: str) -> dict[str, Any]:
        """See VariablesMixin."""
        namespace = dict(self.shell.user_ns)
        names, following = page_of(variable_names(namespace, self.shell.user_ns_hidden), limit, after)
        items = await inspect({name: namespace[name] for name in names})
        return {"items": items, "following": following}

    async def saved_variables_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Save, check or load (`action`) the variables in `folder`. Reply `{faults}`: names of variables and why they
        cannot be kept, or `{error}`.
        """
        content = parent["content"]
        folder, namespace = Path(content["folder"]), self.shell.user_ns
        reply: dict[str, Any] = {"faults": {}}
        try:
            if content["action"] == "save":
                reply["faults"] = await save(folder, namespace, self.shell.user_ns_hidden, content["extraBytes"])
            elif content["action"] == "check":
                reply["faults"] = await check(folder, namespace, content["extraBytes"])
            else:
                load(folder, namespace)
        except OSError as error:
            reply = {"error": str(error)}
        self.session.send(stream, "codebox_saved_variables_reply", reply, parent, ident=ident)
