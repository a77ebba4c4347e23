"""All known executions, by id."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from codebox_server.bounds import CLIENT_RUNS, CLIENT_SECONDS, RECEIVED_IDS, REFUSED_IDS
from codebox_server.errors import BoxError, KernelFault
from codebox_server.runs.context import Context
from codebox_server.runs.contexts import Contexts
from codebox_server.runs.execution import Execution, ExecutionRequest
from codebox_server.runs.journal import Journals
from codebox_server.runs.outcome import not_started
from codebox_server.runs.output import Output


class Executions:
    """Starts, finds and interrupts executions, and provides their input."""

    def __init__(self, contexts: Contexts, journals: Journals) -> None:
        self._contexts = contexts
        self._journals = journals
        # Oldest first; kept longer than journals, so that an id missing here was never sent.
        self._received: dict[str, None] = {}
        self._knows_all = True
        self._refused: set[str] = set()

    async def start(self, request: ExecutionRequest, context_id: str | None) -> Execution:
        """Queue a run; it ends at once if the default context cannot be created. Raises conflict (id known), not_found
        (context), too_many_requests (queue full).
        """
        if request.id in self._refused:
            raise BoxError("conflict", "the execution was abandoned before it arrived")
        if request.id in self._received or self._journals.get(_key(request.id)) is not None:
            raise BoxError("conflict", "an execution with this id exists")
        self._note(request.id)
        try:
            context = (
                await self._contexts.default(request.language) if context_id is None else self._contexts.get(context_id)
            )
            execution = self._create(request, context)
            context.submit(execution)
        except KernelFault as fault:
            execution = self._create(request, None)
            execution.finish(not_started(fault.detail).to_json(), None)
        except BoxError:
            self._received.pop(request.id, None)
            raise
        self._journals.add(_key(request.id), execution)
        return execution

    def _note(self, execution_id: str) -> None:
        self._received[execution_id] = None
        if len(self._received) > RECEIVED_IDS:
            del self._received[next(iter(self._received))]
            self._knows_all = False

    def refuse(self, execution_id: str) -> None:
        """Ensure that an execution that was never received never runs, whenever it arrives. Idempotent.

        Raises conflict when it was received, or when that cannot be known.
        """
        if execution_id in self._refused:
            return
        if execution_id in self._received or not self._knows_all or len(self._refused) >= REFUSED_IDS:
            raise BoxError("conflict", "the execution may have run")
        self._refused.add(execution_id)

    def _create(self, request: ExecutionRequest, context: Context | None) -> Execution:
        def on_flood() -> None:
            if context is not None:
                context.stop(execution, "output_limit")

        journal = self._journals.create()
        output = Output(journal, self._journals, on_flood, request.output_bytes)
        execution = Execution(request, None if context is None else context.id, journal, output)
        return execution

    def known(self) -> list[Execution]:
        """Return every execution that is still known, oldest first."""
        return [run for run in self._journals.values() if isinstance(run, Execution)]

    def unfinished(self) -> list[Execution]:
        """Return every execution that runs or waits, oldest first."""
        return [run for run in self.known() if run.state != "done"]

    def of_session(self, session: str) -> list[Execution]:
        """Return the latest executions of a Jupyter client, oldest first: unfinished, or ended within an hour."""
        since = time.monotonic() - CLIENT_SECONDS
        mine = [
            run for run in self.known() if run.request.message is not None and run.request.message.session == session
        ]
        return [run for run in mine if run.state != "done" or run.ended_at > since][-CLIENT_RUNS:]

    def get(self, execution_id: str) -> Execution:
        """Return an execution by id. Raises not_found, also when it has been dropped."""
        execution = self._journals.get(_key(execution_id))
        if not isinstance(execution, Execution):
            raise BoxError("not_found", "no such execution")
        return execution

    def provide_input(self, execution_id: str, text: str) -> None:
        """Reply to `input()`. Raises conflict when the code is not waiting for input."""
        execution = self.get(execution_id)
        if execution.state == "done":
            raise BoxError("conflict", "the execution has ended", reason="not_waiting")
        self._context(execution).provide_input(execution, text)

    def stop_all(self, reason: str, details: dict[str, Any]) -> None:
        """End every run, including queued ones. `details`: further fields of their cause."""
        for execution in self.unfinished():
            # An execution whose context has just been removed ends with that.
            with contextlib.suppress(BoxError):
                self._context(execution).interrupt(execution, reason, details)

    def interrupt(self, execution_id: str) -> None:
        """Interrupt a run. Raises conflict when it has ended."""
        execution = self.get(execution_id)
        if execution.state == "done":
            raise BoxError("conflict", "the execution has ended")
        self._context(execution).interrupt(execution)

    def _context(self, execution: Execution) -> Context:
        # An execution without a context has ended.
        assert execution.context is not None
        return self._contexts.get(execution.context)


def _key(execution_id: str) -> str:
    return f"executions/{execution_id}"
