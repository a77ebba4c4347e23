"""The Jupyter kernel behind a context: its process, its sockets, and whether it can take a request."""

from __future__ import annotations

import asyncio
import datetime
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from codebox_server.bounds import EXIT_AFTER_SECONDS, KERNEL_WAITS
from codebox_server.errors import KernelFault
from codebox_server.jupyter.channel import KernelChannel
from codebox_server.jupyter.managers import BoxMappingKernelManager
from codebox_server.jupyter.message import Message
from codebox_server.kernels.environment import Changes, difference
from codebox_server.kernels.final_output import FinalOutput
from codebox_server.runs.execution import ExecutionRequest
from codebox_server.runs.idle_cpu import IdleCpu
from codebox_server.runs.kernel_start import KernelStart
from codebox_server.runs.probe import is_wrapped
from codebox_server.system.process import Death, children, reap, signal_group, stat_fields, watch_exit

# Messages that a process sent before its end may still be on their way through the sockets.
_FINAL_OUTPUT_SECONDS = 0.02
# The longest that a question waits for output that was written before it.
_OVERTAKING_SECONDS = 1.0

# The usual reason why a kernel that runs elsewhere does not respond.
_NEEDED = 'it has to support "transport": "ipc" in its connection file'

_Reply = TypeVar("_Reply")


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.UTC)


def _how(death: Death) -> str:
    return f"by {death.signal}" if death.signal is not None else f"with exit code {death.exit_code}"


class LiveKernel:
    """Follows a kernel id through its processes; `on_message(channel, message)` and `on_exit()` notify the context."""

    def __init__(
        self,
        kernel_id: str,
        manager: BoxMappingKernelManager,
        on_message: Callable[[str, Message], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.id = kernel_id
        self._manager = manager
        self._jupyter = manager.get_kernel(kernel_id)
        self._on_message = on_message
        self._notify_exit = on_exit
        self.language: str = self._jupyter.kernel_name
        self.death: Death | None = None
        # Whether an execution has reported that the variables were lost with the process.
        self.loss_reported = False
        self.exited = asyncio.Event()
        # Set while no request of another client runs.
        self.calm = asyncio.Event()
        self._channel: KernelChannel | None = None
        self._start: KernelStart
        # Held while a responding process is being ensured.
        self._ensuring = asyncio.Lock()
        # The last output of the process, and its last request from here.
        self._final_output: FinalOutput | None = None
        self._last_request = ""
        # A question that overtook output, the characters of output that precede it, and what ends the wait for them.
        self._held: tuple[Message, int, asyncio.TimerHandle] | None = None
        self._idle_cpu = IdleCpu()
        self._unwatch: Callable[[], None] = lambda: None
        self.open()

    def open(self) -> None:
        """Watch the current process and connect to it."""
        self.death, self.loss_reported = None, False
        self.exited = asyncio.Event()
        self.calm.set()
        self._final_output = getattr(self._jupyter.provisioner, "final_output", None)
        self._unwatch = watch_exit(self.pid, self._on_exit)
        notify = self._on_message
        self._channel = KernelChannel(
            self._jupyter,
            self._on_iopub,
            lambda message: notify("shell", message),
            self._on_stdin,
        )
        self._jupyter.execution_state = "starting"
        self.touch()
        self._start = KernelStart(self._channel, self.pid, self._manager.kernel_start_seconds, self._on_response)

    def close(self) -> None:
        """Stop listening; somebody else restarts or removes the kernel."""
        self._unwatch()
        self._close_channel()
        self.calm.set()

    async def ensure(self) -> None:
        """Ensure that the kernel responds, with a new process when the last one has ended or neither replies nor works.

        Raises KernelFault, TimeoutError, OSError.
        """
        if self.death is None and self._start.responded:
            return
        async with self._ensuring:
            for _ in range(KERNEL_WAITS):
                if self.death is not None:
                    self._close_channel()
                    await self._manager.renew(self.id)
                    self.open()
                start = self._start
                hopeful = await start.wait(self.exited)
                if self.death is not None:
                    raise self._fault(f"the kernel ended {_how(self.death)} while it started")
                if start.closed:
                    raise TimeoutError("the kernel was restarted or removed")
                if start.responded:
                    return
                if not hopeful:
                    await self._give_up()
        raise self._fault(f"the kernel did not respond in time; {_NEEDED}")

    def _fault(self, what: str) -> KernelFault:
        words = self._jupyter.last_words
        return KernelFault(f"{what}: {words}" if words else what)

    async def _give_up(self) -> None:
        """End a process that has never replied, and so has lost nothing."""
        self.loss_reported = True
        self.kill()
        await asyncio.wait_for(self.exited.wait(), EXIT_AFTER_SECONDS)

    async def await_calm(self, ended: asyncio.Future[None]) -> None:
        """Wait while another client's code runs in this kernel: that is a queue as well, which `ended` cuts short."""
        if self.calm.is_set():
            return
        calm = asyncio.ensure_future(self.calm.wait())
        await asyncio.wait((calm, ended), return_when=asyncio.FIRST_COMPLETED)
        calm.cancel()

    @property
    def pid(self) -> int:
        """The process id of the kernel."""
        return self._jupyter.pid

    def processes(self) -> set[int]:
        """Return the processes that hold the variables: the kernel, and the child in which it runs code, if any."""
        if self.death is not None:
            return set()
        return {self.pid, *children(self.pid)} if is_wrapped(self.language) else {self.pid}

    @property
    def state(self) -> str:
        """One of starting, idle, busy and dead."""
        return "dead" if self.death is not None else str(self._jupyter.execution_state)

    @property
    def last_activity(self) -> datetime.datetime:
        """The time of the last activity."""
        return self._jupyter.last_activity or now()

    def touch(self) -> None:
        """Record activity."""
        self._jupyter.last_activity = self._manager.last_kernel_activity = now()

    @property
    def folder(self) -> str:
        """The folder in which its process was started."""
        return self._jupyter.folder

    async def request(self, kind: str, content: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the reply to a request of our own, None when the kernel ends meanwhile. Raises TimeoutError."""
        return await self._exchange(lambda channel: channel.request(kind, content, seconds))

    async def prove(self, code: str, seconds: float) -> bool:
        """Whether the kernel runs code that prints nothing and is not counted. Raises TimeoutError."""
        return bool(await self._exchange(lambda channel: channel.prove(code, seconds)))

    async def restart(self) -> None:
        """Start a new process at once, without the last output of the old one. Raises as `ensure` does."""
        await self._manager.restart_kernel(self.id, now=True)
        await self.ensure()

    def pending_changes(self) -> Changes:
        """Return the changes that would make the environment of its process that of a new one."""
        return difference(self._jupyter.environment, self._jupyter.wanted_environment())

    def has(self, changes: Changes) -> None:
        """Record that its process has applied these changes."""
        kept = {name: value for name, value in self._jupyter.environment.items() if name not in changes}
        self._jupyter.environment = {**kept, **{name: value for name, value in changes.items() if value is not None}}

    async def _exchange(self, send: Callable[[KernelChannel], Coroutine[Any, Any, _Reply]]) -> _Reply | None:
        if self.death is not None:
            return None
        await self.ensure()
        if self._channel is None:
            return None
        exchange = asyncio.ensure_future(send(self._channel))
        await asyncio.wait([exchange])
        # Cancelled when the channel is closed.
        return None if exchange.cancelled() else exchange.result()

    def execute(self, request: ExecutionRequest) -> str:
        """Send a request; return the message id that its outputs carry."""
        assert self._channel is not None
        self._last_request = self._channel.execute(
            request.code,
            request.env,
            takes_input=request.takes_input,
            message=request.message,
            folder=request.folder,
        )
        return self._last_request

    def reply_input(self, text: str) -> None:
        """Reply to the input request of the running code."""
        if self._channel is not None:
            self._channel.reply_input(text)

    def renew_iopub(self) -> None:
        """Subscribe to the kernel again after it sent a message that could not be received."""
        if self._channel is not None:
            self._channel.renew_iopub()

    def interrupt(self) -> None:
        """Request that the kernel stop what it runs; does not wait."""
        task = asyncio.ensure_future(self._jupyter.interrupt_kernel())
        # A kernel that dies meanwhile cannot be interrupted, and its death is noticed anyway.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def kill(self) -> None:
        """Send SIGKILL to the process group of the kernel."""
        if self.death is None:
            signal_group(self.pid, signal.SIGKILL)

    def hangs(self) -> bool:
        """Whether its process waits inside the host's kernel, where no signal reaches it."""
        fields = stat_fields(self.pid)
        return fields is not None and fields[0] == b"D"

    def end_runaway(self, runs_nothing: bool) -> None:
        """Kill it when it `runs_nothing` and has used CPU time before each of the last calls of this."""
        if not runs_nothing or self._start.has_time or self.death is not None:
            self._idle_cpu.forget()
        elif self._idle_cpu.look(self.processes()):
            self.kill()

    def _on_response(self) -> None:
        if self._jupyter.execution_state == "starting":
            self._jupyter.execution_state = "idle"

    def _close_channel(self) -> None:
        self._forget_held()
        if self._channel is not None:
            self._channel.close()
        if self._final_output is not None:
            self._final_output.close()
            self._final_output = None
        self._start.close()

    def _on_exit(self) -> None:
        # Nobody would get the answer.
        self._forget_held()
        self.death = reap(self.pid) or Death(-int(signal.SIGKILL))
        self._jupyter.was_reaped(self.death.returncode)
        self._jupyter.execution_state = "dead"
        self.exited.set()
        asyncio.get_running_loop().call_later(_FINAL_OUTPUT_SECONDS, self._after_exit, self._channel)

    def _after_exit(self, channel: KernelChannel | None) -> None:
        if channel is self._channel:
            messages = self._final_output.unreceived(self._last_request) if self._final_output is not None else []
            self._close_channel()
            for message in messages:
                self._on_message("iopub", message)
            self.calm.set()
            self._notify_exit()

    def _on_iopub(self, message: Message) -> None:
        if self._final_output is not None:
            self._final_output.mark_received(message)
        is_of_run = message.kind == "status" and message.parent_kind == "execute_request"
        if is_of_run and message.state in ("busy", "idle"):
            self._jupyter.execution_state = message.state
            self.touch()
        self._on_message("iopub", message)
        if self._held is not None and self._final_output is not None and self._final_output.received >= self._held[1]:
            self._release()

    def _on_stdin(self, message: Message) -> None:
        """Pass a question on after the output that was written before it, which comes on another channel."""
        before = self._final_output.written() if self._final_output is not None else 0
        if self._final_output is None or self._final_output.received >= before:
            self._on_message("stdin", message)
            return
        # Another thread has asked before; its question waits no longer.
        self._release()
        # The count is in memory that code of the box can overwrite, so the wait is bounded.
        timer = asyncio.get_running_loop().call_later(_OVERTAKING_SECONDS, self._release)
        self._held = (message, before, timer)

    def _release(self) -> None:
        held = self._forget_held()
        if held is not None:
            self._on_message("stdin", held)

    def _forget_held(self) -> Message | None:
        if self._held is None:
            return None
        (message, _, timer), self._held = self._held, None
        timer.cancel()
        return message
