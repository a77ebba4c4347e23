"""Routes the messages of a kernel to the run that they belong to."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from codebox_server.bounds import IDLE_GRACE_SECONDS, ORIGINS_KNOWN
from codebox_server.jupyter.message import Message
from codebox_server.packages.missing_package import MissingPackages
from codebox_server.runs.execution import Execution
from codebox_server.runs.live_kernel import LiveKernel
from codebox_server.runs.translation import take_begin, take_error, take_output, take_question


class MessageRouter:
    """Receives the messages of one kernel. `on_begin` is called when the code of a run begins, `on_unanswerable` when
    it asks for input that nobody can give.
    """

    def __init__(
        self,
        kernel: LiveKernel,
        missing_packages: MissingPackages,
        on_begin: Callable[[Execution], None],
        on_unanswerable: Callable[[Execution], None],
    ) -> None:
        self._kernel = kernel
        self._missing_packages = missing_packages
        self._on_begin = on_begin
        self._on_unanswerable = on_unanswerable
        # The executions that have begun, by their requests: output that outlives a run still carries its request.
        self._begun: OrderedDict[str, str] = OrderedDict()
        # When the last message of iopub arrived, by the clock of the loop.
        self._heard_at = 0.0

    def route(self, channel: str, message: Message, running: Execution | None) -> None:
        """Handle a message that arrived while this execution, or none, is `running`."""
        mine = running is not None and running.message_id != "" and message.parent_id == running.message_id
        execution = running if mine else None
        if channel == "iopub":
            self._heard_at = asyncio.get_running_loop().time()
        if channel == "iopub" and running is not None and running.begun and self._is_of_earlier(running, message):
            take_output(running, message, origin=self._begun[message.parent_id])
        elif channel == "iopub":
            self._on_iopub(message, execution)
        elif running is not None and message.kind == "input_request" and message.parent_id in self._begun:
            self._on_question(running, message)
        elif execution is None:
            return
        elif message.kind == "execute_reply":
            execution.reply = message.content()
            execution.reply_metadata = message.metadata()
            execution.reply_bytes = len(message.raw_content)
            self._check_ends(execution)
        elif message.kind == "input_request":
            self._on_question(execution, message)

    def _on_question(self, execution: Execution, message: Message) -> None:
        if execution.request.takes_input:
            take_question(execution, message)
        else:
            # Some kernels ask although the request did not allow it.
            self._on_unanswerable(execution)

    def _is_of_earlier(self, running: Execution, message: Message) -> bool:
        """Whether the message comes from a thread or task of an earlier execution."""
        if message.kind == "status" or message.parent_id == running.message_id or message.parent_id not in self._begun:
            return False
        self._begun.move_to_end(message.parent_id)
        return True

    def _on_iopub(self, message: Message, execution: Execution | None) -> None:
        if message.kind == "status":
            self._on_status(message, execution)
        elif execution is None:
            return
        elif message.kind == "execute_input" and not execution.begun:
            self._begun[message.parent_id] = execution.request.id
            if len(self._begun) > ORIGINS_KNOWN:
                self._begun.popitem(last=False)
            take_begin(execution, message)
            self._on_begin(execution)
        elif message.kind == "error" and execution.missing is None:
            take_error(execution, message, self._missing_packages)
        else:
            # Any further output shows that more than an import has failed.
            execution.show_missing()
            take_output(execution, message)

    def _on_status(self, message: Message, execution: Execution | None) -> None:
        idle = message.state == "idle"
        if execution is not None and idle:
            execution.idle = True
            self._check_ends(execution)
        elif execution is None and message.parent_kind == "execute_request":
            if idle:
                self._kernel.calm.set()
            else:
                self._kernel.calm.clear()

    def _check_ends(self, execution: Execution) -> None:
        """A run has ended when the kernel has replied and is idle; one follows soon after the other."""
        if execution.idle and execution.reply is not None:
            execution.settle()
        else:
            asyncio.get_running_loop().call_later(IDLE_GRACE_SECONDS, self._give_up, execution, execution.settled)

    def _give_up(self, execution: Execution, settled: asyncio.Future[None]) -> None:
        if settled.done():
            return
        loop = asyncio.get_running_loop()
        left = self._heard_at + IDLE_GRACE_SECONDS - loop.time()
        if not execution.idle and left > 0:
            # Much output may arrive long after the reply, which overtakes it.
            loop.call_later(left, self._give_up, execution, settled)
            return
        execution.settle()
        if not execution.idle:
            # Its last outputs have not arrived, and never will.
            self._kernel.renew_iopub()
