"""One run of code: its request, its output, and its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from codebox_server.bounds import STREAM_BYTES
from codebox_server.jupyter.message import ClientMessage, Message
from codebox_server.packages.missing_package import HAS_RUN, MissingPackage
from codebox_server.runs.journal import Journal
from codebox_server.runs.output import Output

_NOT_MEASURED: dict[str, Any] = {
    "cpuMs": 0,
    "peakMemoryBytes": None,
    "processes": [],
    "files": {"created": [], "modified": [], "deleted": []},
}


@dataclass(frozen=True)
class ExecutionRequest:
    """The caller's request; times in milliseconds."""

    id: str
    code: str
    language: str
    timeout_ms: int
    env: dict[str, str]
    auto_install: bool = False
    # CPU time of everything that it starts; None means no limit.
    cpu_limit_ms: int | None = None
    message: ClientMessage | None = None
    # Nobody answers its requests for input.
    unattended: bool = False
    # Where the code runs; None means where the code before it has left the kernel.
    folder: str | None = None
    # How much of its streams is kept.
    output_bytes: int = STREAM_BYTES

    @property
    def is_recorded(self) -> bool:
        """Whether it is part of the history of its kernel: a Jupyter client may run code beside it."""
        return self.message is None or self.message.store_history

    @property
    def takes_input(self) -> bool:
        """Whether somebody can answer its requests for input."""
        return not self.unattended if self.message is None else self.message.allow_stdin


@dataclass
class Execution:
    """A run in its context. `stop` is why it is being ended: timeout, cpu_limit, interrupted, output_limit."""

    request: ExecutionRequest
    # None if the default context could not be created.
    context: str | None
    journal: Journal
    output: Output
    state: str = "queued"
    queued_at: float = field(default_factory=time.monotonic)
    started_at: float = 0.0
    execution_count: int | None = None
    waiting_for_input: bool = False
    # An input request that arrived before the start of the code was reported.
    question: Message | None = None
    stop: str | None = None
    # How its context was ended from outside while it ran.
    end: str | None = None
    # Further fields of the cause, from the code that ended the run.
    details: dict[str, Any] | None = None
    message_id: str = ""
    begun: bool = False
    idle: bool = False
    reply: dict[str, Any] | None = None
    reply_metadata: dict[str, Any] = field(default_factory=dict)
    reply_bytes: int = 0
    # The last package that pip refused to install, according to its output.
    refused: str | None = None
    # Whether its code has reported an error.
    has_error: bool = False
    done: dict[str, Any] | None = None
    ended_at: float = 0.0
    # An error that is held back because the missing package may be installed, and whether that was tried.
    missing: MissingPackage | None = None
    repaired: bool = False
    # Set when there is nothing more to wait for: both ends seen, the kernel dead, or the context removed.
    settled: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self) -> None:
        """Wake the runner, once."""
        if not self.settled.done():
            self.settled.set_result(None)

    def run_again(self, message_id: str) -> None:
        """Reset the state after the same code has been sent again."""
        self.message_id = message_id
        self.begun = self.idle = self.has_error = False
        self.question = None
        self.reply, self.reply_metadata, self.reply_bytes = None, {}, 0
        self.settled = asyncio.get_running_loop().create_future()

    def show_missing(self, advice: str = HAS_RUN) -> None:
        """Report the error that was held back, with advice."""
        missing, self.missing = self.missing, None
        if missing is not None:
            self.output.error(missing.name, missing.value, missing.traceback, missing.with_advice(advice))

    def finish(self, outcome: dict[str, Any], measured: dict[str, Any] | None) -> None:
        """Write the last event: outcome, times, and measurements if it ran at all."""
        now = time.monotonic()
        started = self.started_at or now
        done = {
            **outcome,
            "executionCount": self.execution_count,
            "durationMs": round((now - started) * 1000, 3),
            "queuedMs": round((started - self.queued_at) * 1000, 3),
            **(measured or _NOT_MEASURED),
        }
        self.state = "done"
        self.ended_at = now
        self.waiting_for_input = False
        self.done = self.output.finish(done)

    def to_json(self) -> dict[str, Any]:
        """Return the execution as the API represents it."""
        return {
            "id": self.request.id,
            "context": self.context,
            "language": self.request.language,
            "state": self.state,
            "lastSeq": self.journal.last_seq,
            "executionCount": self.execution_count,
            # None while it waits.
            "queuedMs": round((self.started_at - self.queued_at) * 1000, 3) if self.started_at else None,
            "waitingForInput": self.waiting_for_input,
            "done": self.done,
            "message": self.request.message.to_json() if self.request.message else None,
        }
