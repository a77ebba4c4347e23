"""One kernel with its queue: runs one execution after the other and notices everything that can end one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

from codebox_server.bounds import IDLE_GRACE_SECONDS, KERNEL_ATTEMPTS, QUEUE_WAITING, VARIABLES_SECONDS
from codebox_server.errors import BoxError, KernelFault
from codebox_server.jupyter.managers import BoxMappingKernelManager
from codebox_server.jupyter.message import Message
from codebox_server.kernels.variables import REQUEST as VARIABLES
from codebox_server.packages.missing_package import FAILED, MissingPackage, MissingPackages
from codebox_server.runs.binding import change_environment, offer_environment, prove
from codebox_server.runs.cpu_clock import CpuClock
from codebox_server.runs.escalation import Escalation
from codebox_server.runs.execution import Execution
from codebox_server.runs.initial_variables import InitialVariables
from codebox_server.runs.live_kernel import LiveKernel, now
from codebox_server.runs.outcome import (
    UNANSWERED,
    WAITED,
    Outcome,
    asks_exit,
    crowded,
    died,
    ended_outside,
    failed,
    not_started,
    replied,
    reports_loss,
    says_full,
    stopped,
)
from codebox_server.runs.probe import Events, Probe, Reading
from codebox_server.runs.router import MessageRouter
from codebox_server.runs.translation import take_error_of_reply, take_reply
from codebox_server.runs.trouble import trouble

_log = logging.getLogger(__name__)


class Context:
    """A kernel of the box. Its process may be replaced; the context and its id stay."""

    def __init__(
        self, kernel_id: str, manager: BoxMappingKernelManager, probe: Probe, missing_packages: MissingPackages
    ) -> None:
        self.id = kernel_id
        self._manager = manager
        self._probe = probe
        self._missing_packages = missing_packages
        # Set to end the installer that runs for an execution; None while there is none.
        self._installing: asyncio.Event | None = None
        self._kernel = LiveKernel(kernel_id, manager, self._on_message, self._on_exit)
        self._router = MessageRouter(self._kernel, missing_packages, self._on_begin, self._on_unanswerable)
        self.language = self._kernel.language
        self._created_at = now()
        self._queue: deque[Execution] = deque()
        self._running: Execution | None = None
        self._worker: asyncio.Task[None] | None = None
        self._escalation = Escalation(self._interrupt, self._kernel.kill, self._kernel.hangs)
        # The variables were lost while nothing ran: the next execution reports it.
        self._unreported_loss = False
        self._initial: InitialVariables | None = None
        # Why everything here ends from outside: restarted, context_deleted.
        self._end: str | None = None

    def to_json(self, default: bool) -> dict[str, Any]:
        """Return the context as the API represents it."""
        return {
            "id": self.id,
            "language": self.language,
            "default": default,
            "cwd": self._manager.relative(self._kernel.folder),
            "state": self._kernel.state,
            "createdAt": self._created_at.isoformat().replace("+00:00", "Z"),
            "lastActivityAt": self._kernel.last_activity.isoformat().replace("+00:00", "Z"),
        }

    async def variables(self, limit: int, after: str) -> dict[str, Any]:
        """Return a page of the variables that a run would find: `{items, following}`. Raises conflict while something
        runs.
        """
        return await self.ask(VARIABLES, {"limit": limit, "after": after}, VARIABLES_SECONDS)

    def begin_with(self, initial: InitialVariables) -> None:
        """Load these variables into each process of the kernel before anything runs there."""
        self._initial = initial

    async def _load_initial(self) -> None:
        if self._initial is not None:
            await self._initial.load(self._kernel)

    async def ask(self, kind: str, content: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply to a request of our own, empty if the kernel ends. Raises conflict while something runs."""
        if not self._is_idle():
            raise BoxError("conflict", "the context is busy", reason="context_busy")
        try:
            await self._load_initial()
            reply = await self._kernel.request(kind, content, seconds)
        except TimeoutError:
            raise BoxError("conflict", "the kernel is busy", reason="context_busy") from None
        return reply or {}

    def processes(self) -> set[int]:
        """See `LiveKernel.processes`."""
        return self._kernel.processes()

    def end_runaway(self) -> None:
        """See `LiveKernel.end_runaway`."""
        self._kernel.end_runaway(self._worker is None)

    async def prove(self) -> None:
        """See `binding.prove`. Afterwards the kernel has the variables that it begins with."""
        await prove(self._kernel)
        await self._load_initial()

    async def change_environment(self, takes: bool) -> None:
        """See `binding.change_environment`."""
        await change_environment(self._kernel, takes, self._is_idle())

    async def offer_environment(self) -> None:
        """See `binding.offer_environment`."""
        if self._is_idle():
            await offer_environment(self._kernel)

    def _is_idle(self) -> bool:
        return self._running is None and not self._queue and self._kernel.calm.is_set()

    # --- what others do to the kernel --------------------------------------------------------------------------

    def close(self, end: str) -> None:
        """End running and queued executions, as the kernel is restarted or removed from outside."""
        self._end = end
        self._kernel.close()
        self._stop_installing()
        waiting, self._queue = self._queue, deque()
        if self._running is not None:
            self._running.end = end
            self._running.settle()
        for execution in waiting:
            self._finish(execution, ended_outside(end), None)

    def reopen(self) -> None:
        """Resume after the kernel has been restarted from outside."""
        self._end = None
        self._kernel.open()

    def interrupted_outside(self) -> None:
        """A stock client interrupts the kernel: an execution that ends by that was interrupted on request."""
        if self._running is not None and self._running.stop is None:
            self._running.stop = "interrupted"
            self._stop_installing()

    # --- what callers do to executions -------------------------------------------------------------------------

    def submit(self, execution: Execution) -> None:
        """Queue an execution. Raises too_many_requests when 16 wait."""
        if len(self._queue) >= QUEUE_WAITING:
            raise BoxError("too_many_requests", f"{QUEUE_WAITING} executions wait in this context")
        self._queue.append(execution)
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())

    def interrupt(
        self, execution: Execution, reason: str = "interrupted", details: dict[str, Any] | None = None
    ) -> None:
        """End an execution on request. If it has not begun, it ends without having run."""
        if execution.state == "running":
            self.stop(execution, reason, details)
            return
        execution.stop, execution.details = reason, details
        if execution in self._queue:
            self._queue.remove(execution)
            self._finish(execution, stopped(reason, None, False, details), None)
        else:
            execution.settle()

    def stop(self, execution: Execution, reason: str, details: dict[str, Any] | None = None) -> None:
        """Start to escalate for the running execution; the first reason counts. No effect once its code has ended."""
        if execution is not self._running or execution.state != "running" or self._escalation.cancelled:
            return
        if execution.stop is None:
            waited = reason == "timeout" and execution.waiting_for_input
            execution.stop, execution.details = reason, {"detail": WAITED} if waited else details
        if not self._stop_installing():
            self._escalation.start()

    def _crowded(self, execution: Execution) -> None:
        if not execution.settled.done():
            self.stop(execution, "pids_limit")

    def provide_input(self, execution: Execution, text: str) -> None:
        """Reply to `input()`. Raises conflict when there is no input request."""
        if not execution.waiting_for_input:
            raise BoxError("conflict", "the execution is not waiting for input", reason="not_waiting")
        execution.waiting_for_input = False
        self._kernel.reply_input(text)

    # --- running -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._queue:
                self._running = self._queue.popleft()
                try:
                    await self._run(self._running)
                except Exception:
                    _log.exception("an execution failed in the box server")
                    outcome = failed("the box server failed; see its log")
                    self._finish(self._running, outcome.losing(self._kernel.death is not None), None)
                finally:
                    self._running = None
        finally:
            self._worker = None

    async def _run(self, execution: Execution) -> None:
        begun = await self._prepare(execution)
        if isinstance(begun, Outcome):
            self._finish(execution, begun, None)
            return
        try:
            await self._run_measured(execution, begun)
        finally:
            begun.descendants.close()

    async def _run_measured(self, execution: Execution, begun: Reading) -> None:
        self._escalation = Escalation(self._interrupt, partial(self._kill, begun), self._kernel.hangs)
        execution.state = "running"
        execution.started_at = time.monotonic()
        request = execution.request
        execution.message_id = self._kernel.execute(request)
        clock = asyncio.get_running_loop().call_later(request.timeout_ms / 1000, self.stop, execution, "timeout")
        cpu_clock = CpuClock(
            request.cpu_limit_ms,
            lambda: self._probe.used_ms(begun),
            lambda: self.stop(execution, "cpu_limit"),
        )
        try:
            await execution.settled
            if execution.missing is not None:
                await self._install_missing(execution, execution.missing)
            await self._await_exit(execution)
        finally:
            clock.cancel()
            cpu_clock.cancel()
            self._escalation.cancel()
        await self._conclude(execution, begun)

    async def _conclude(self, execution: Execution, begun: Reading) -> None:
        spent, died = execution.stop == "cpu_limit", self._kernel.death is not None
        events = await self._probe.events(begun.counts, begun.descendants, spent, died)
        outcome = self._judge(execution, events, begun.had_room).losing(self._unreported_loss)
        if events.crowded and self._kernel.death is None and execution.end is None:
            # It has not reaped the processes that it forked, and they count until it does or ends.
            self._kernel.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._kernel.exited.wait(), IDLE_GRACE_SECONDS)
            outcome = outcome.losing(True)
        if outcome.status == "error":
            take_error_of_reply(execution)
        take_reply(execution)
        measured = await self._probe.measure(begun, self._kernel.death)
        self._unreported_loss = False
        self._kernel.loss_reported = self._kernel.death is not None
        self._finish(execution, outcome, measured)

    async def _install_missing(self, execution: Execution, missing: MissingPackage) -> None:
        """Install the missing package and run the code again, once; the error is shown when that is impossible."""
        execution.repaired = True
        if self._may_continue(execution):
            self._installing = asyncio.Event()
            try:
                installed = await self._missing_packages.install(missing, self._installing)
            finally:
                self._installing = None
            execution.output.announce("install", installed.to_json())
            if installed.exit_code == 0 and self._may_continue(execution):
                execution.missing = None
                execution.run_again(self._kernel.execute(replace(execution.request, message=None)))
                await execution.settled
                return
            if installed.hint is not None:
                execution.show_missing(f"{FAILED} {installed.hint['detail']}")
        execution.show_missing(FAILED)

    def _may_continue(self, execution: Execution) -> bool:
        return execution.stop is None and self._end_of(execution) is None and self._kernel.death is None

    def _stop_installing(self) -> bool:
        """End the installer that a run waits for; return whether there is one."""
        if self._installing is None:
            return False
        self._installing.set()
        return True

    async def _prepare(self, execution: Execution) -> Reading | Outcome:
        """Wait until the kernel can accept the request. Return the reading before it, or the outcome without it."""
        for _ in range(KERNEL_ATTEMPTS):
            refusal = self._refusal(execution)
            if refusal is not None:
                return refusal
            self._unreported_loss |= self._kernel.death is not None and not self._kernel.loss_reported
            try:
                await self._probe.crowd.making_room(self._kernel.ensure)
            except KernelFault as fault:
                return self._refusal(execution) or not_started(fault.detail)
            except BoxError:
                return self._refusal(execution) or Outcome("killed", crowded(), True)
            except (TimeoutError, RuntimeError, OSError) as error:
                return self._refusal(execution) or not_started(str(error))
            await self._load_initial()
            await self._kernel.await_calm(execution.settled)
            if self._kernel.death is None:
                reading = await self._probe.begin(self._kernel.pid, self.language, partial(self._crowded, execution))
                refusal = self._refusal(execution)
                # If the kernel has died since, there is another attempt.
                if refusal is None and self._kernel.death is None:
                    return reading
                reading.descendants.close()
                if refusal is not None:
                    return refusal
        return self._refusal(execution) or not_started("the kernel ends each time it starts")

    def _end_of(self, execution: Execution) -> str | None:
        """Return how the context was ended from outside. It may have been reopened before the execution notices."""
        return execution.end or self._end

    def _refusal(self, execution: Execution) -> Outcome | None:
        if (end := self._end_of(execution)) is not None:
            return ended_outside(end)
        if execution.stop is not None:
            return stopped(execution.stop, None, False, execution.details)
        return None

    async def _await_exit(self, execution: Execution) -> None:
        """`exit()` replies first and ends the kernel right after: wait for that, as it decides about the variables."""
        if asks_exit(execution.reply or {}) and self._kernel.death is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._kernel.exited.wait(), IDLE_GRACE_SECONDS)

    def _judge(self, execution: Execution, events: Events, had_room: bool) -> Outcome:
        outcome = self._verdict(execution, events.oom)
        if outcome.cause is not None:
            return outcome
        blames_disk = had_room or says_full(execution.reply or {})
        return outcome.because(trouble(self._probe, events, outcome.status == "error", blames_disk))

    def _verdict(self, execution: Execution, oom: dict[str, int] | None) -> Outcome:
        death, stage = self._kernel.death, self._escalation.stage
        if (end := self._end_of(execution)) is not None:
            return ended_outside(end)
        if death is not None and oom is not None and stage != "restart":
            return died(death, oom)
        if execution.stop is not None:
            lost = death is not None or reports_loss(execution.reply_metadata)
            return stopped(execution.stop, stage, lost, execution.details)
        if execution.reply is not None:
            lost = death is not None or reports_loss(execution.reply_metadata)
            return replied(execution.reply, execution.reply_metadata, oom).losing(lost)
        if death is not None:
            return died(death, oom)
        return failed("the kernel did not respond")

    def _finish(self, execution: Execution, outcome: Outcome, fields: dict[str, Any] | None) -> None:
        execution.finish(outcome.to_json(), fields)
        self._kernel.touch()

    def _kill(self, begun: Reading) -> None:
        self._probe.make_way(begun.descendants)
        self._kernel.kill()

    def _interrupt(self) -> None:
        # Before the code runs an interrupt would be lost; `_on_begin` sends it later.
        if self._running is not None and self._running.begun:
            self._kernel.interrupt()

    # --- messages of the kernel --------------------------------------------------------------------------------

    def _on_exit(self) -> None:
        if self._running is not None and self._running.state == "running":
            self._running.settle()

    def _on_message(self, channel: str, message: Message) -> None:
        self._router.route(channel, message, self._running)

    def _on_begin(self, execution: Execution) -> None:
        if execution.stop is not None:
            self._interrupt()

    def _on_unanswerable(self, execution: Execution) -> None:
        self.stop(execution, "interrupted", {"detail": UNANSWERED})
