"""Derives the status, the cause and the loss of variables from what was observed of a run."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Any

from codebox_server.system.process import Death

# The cause of a run that filled the box with processes.
FULL = "the box had as many processes and threads as it may have; those that the run left were ended"
# The details of runs that ask for input.
UNANSWERED = "the code asked for input, which has no one to answer it here: send `stdin`, or use a box"
WAITED = "the time limit has passed while the code was waiting for input"
_STOPS = {
    "timeout": ("timeout", "the time limit has passed"),
    "cpu_limit": ("timeout", "the limit on CPU time has been reached"),
    "interrupted": ("interrupted", "the run was interrupted on request"),
    "output_limit": ("output_limit", "the run wrote more than a run may write"),
    "pids_limit": ("killed", FULL),
}
_ENDS = {
    "restarted": "the context was restarted",
    "context_deleted": "the context was deleted",
}
# Limit for the description of a failure.
_DETAIL_CHARACTERS = 1000


@dataclass(frozen=True)
class Outcome:
    """`status`, `cause` (None when it needs none) and `state_lost` of a `done` event."""

    status: str
    cause: dict[str, Any] | None = None
    state_lost: bool = False

    def losing(self, lost: bool) -> Outcome:
        """Return the same outcome, with the variables lost when `lost`."""
        return Outcome(self.status, self.cause, True) if lost else self

    def because(self, cause: dict[str, Any] | None) -> Outcome:
        """Return the same outcome with another cause. Code that ends well but leaves too many processes counts as
        killed.
        """
        is_cut = self.status == "ok" and cause is not None and cause["code"] == "pids_limit"
        return Outcome("killed" if is_cut else self.status, cause, self.state_lost)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the `done` event."""
        cause = {} if self.cause is None else {"cause": self.cause}
        return {"status": self.status, **cause, "stateLost": self.state_lost}


def stopped(stop: str, stage: str | None, state_lost: bool, details: dict[str, Any] | None = None) -> Outcome:
    """The clock, the caller or the output limit ended it. `details`: further fields of the cause."""
    status, detail = _STOPS[stop]
    cause: dict[str, Any] = {"code": stop, "detail": detail, **(details or {})}
    if stage is not None:
        cause["stage"] = stage
    return Outcome(status, cause, state_lost)


def ended_outside(code: str) -> Outcome:
    """The context was restarted or deleted during the run."""
    return Outcome("killed", {"code": code, "detail": _ENDS[code]}, True)


def not_started(detail: str) -> Outcome:
    """The kernel of the context could not be started: no code has run."""
    return Outcome("killed", {"code": "kernel_start", "detail": detail}, True)


def failed(detail: str) -> Outcome:
    """The box server or the kernel itself failed, whatever the code did."""
    return Outcome("killed", {"code": "internal", "detail": detail[:_DETAIL_CHARACTERS]})


def crowded() -> dict[str, Any]:
    """Return the cause `pids_limit`."""
    return {"code": "pids_limit", "detail": FULL}


def out_of_memory(process: str, memory: dict[str, int]) -> dict[str, Any]:
    """Return the cause `oom`. `process`: what was killed, the kernel, the command, or a child of either."""
    detail = f"the box used all its memory, and a {process} process was ended for it"
    return {"code": "oom", "detail": detail, "process": process, "signal": "SIGKILL", **memory}


def died(death: Death, oom: dict[str, int] | None) -> Outcome:
    """The process that ran the code has ended. `oom`: what `Events` has."""
    if oom is not None and death.signal == signal.Signals.SIGKILL.name:
        return Outcome("oom", out_of_memory("kernel", oom), True)
    if death.signal is not None:
        return Outcome("killed", {"code": "signal", "detail": f"ended by {death.signal}", "signal": death.signal}, True)
    detail = f"the process ended itself with exit code {death.exit_code}"
    return Outcome("killed", {"code": "exit", "detail": detail, "exitCode": death.exit_code}, True)


def reports_loss(metadata: dict[str, Any]) -> bool:
    """Whether the reply of one of our own kernels reports that the process behind it has ended."""
    own = metadata.get("codebox")
    return isinstance(own, dict) and (isinstance(own.get("childReturncode"), int) or own.get("stateLost") is True)


def asks_exit(reply: dict[str, Any]) -> bool:
    """Whether the kernel is going to end, as after `exit()`."""
    payload = reply.get("payload")
    return isinstance(payload, list) and any(
        isinstance(item, dict) and item.get("source") == "ask_exit" for item in payload
    )


def says_full(reply: dict[str, Any]) -> bool:
    """Whether the error of a reply is that of a full disk, in the wording of any language."""
    return re.search(r"No space left|Disk quota|ENOSPC", str(reply.get("evalue", ""))[:10_000]) is not None


def replied(reply: dict[str, Any], metadata: dict[str, Any], oom: dict[str, int] | None) -> Outcome:
    """The kernel replied. Our own kernels report in the metadata that the process behind them has ended."""
    own = metadata.get("codebox")
    returncode = own.get("childReturncode") if isinstance(own, dict) else None
    if isinstance(returncode, int):
        outcome = died(Death(returncode), oom)
        # A shell or script that ends itself is an ordinary end of the cell, but the variables are lost.
        return Outcome("error", outcome.cause, True) if returncode >= 0 else outcome
    fault = own.get("fault") if isinstance(own, dict) else None
    if isinstance(fault, str):
        return failed(f"the kernel itself failed: {fault}")
    status = reply.get("status")
    if status == "ok":
        return Outcome("ok")
    if status == "aborted":
        return Outcome("interrupted", {"code": "interrupted", "detail": "the kernel dropped it from its queue"})
    return Outcome("error")
