"""Requests, and the rules by which they are repeated. Nothing here does I/O."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from .errors import CodeBoxError
from .options import to_json

USUAL_SECONDS = 60.0
TRANSFER_SECONDS = 3600.0
MAX_PAUSE_SECONDS = 30.0

# A request that has waited this long has reached the gateway: when its connection breaks, it is repeated.
_ARRIVED_SECONDS = 5.0


def path_of(*parts: str) -> str:
    """The path of a resource: each argument becomes one segment."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def file_path(box: str, path: str) -> str:
    """The path of a file in a box; bytes of its name that are not UTF-8 are lone surrogates (PEP 383)."""
    return f"{path_of('boxes', box, 'files')}/{quote(path, safe='/', errors='surrogateescape')}"


@dataclass(frozen=True)
class Call:
    """One request. ``seconds`` bounds the whole call; for a stream, the time until its response begins."""

    method: str
    path: str
    query: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    content: Callable[[], Any] | None = None
    """Makes the body, once per attempt."""
    is_repeatable: bool = True
    """False for a body that can be sent only once."""
    seconds: float = USUAL_SECONDS


def creating(
    path: str,
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    seconds: float = USUAL_SECONDS,
) -> Call:
    """A call that creates or runs something: its key makes it safe to repeat."""
    return Call(
        method,
        path,
        json={**arguments, **to_json(options)},
        headers={**(headers or {}), "idempotency-key": options.get("idempotency_key") or str(uuid.uuid4())},
        seconds=options.get("deadline_seconds") or seconds,
    )


class Attempts:
    """
    Counts the attempts of a call, and says when the next one begins.

    A request is repeated only where that is safe: it changes nothing, or replaces something as a whole, or has an
    Idempotency-Key. A change with a condition is not repeated once it may have arrived: its own effect would make the
    condition false.
    """

    def __init__(self, call: Call, retries: int) -> None:
        has_key = "idempotency-key" in call.headers
        self._is_safe = (call.method not in ("POST", "PATCH") or has_key) and call.is_repeatable
        conditions = (call.headers.get("if-match"), call.headers.get("if-none-match"))
        self._is_conditional = call.method != "GET" and any(conditions)
        self._is_deletion = call.method == "DELETE"
        self._was_cut = False
        self._retries = retries
        self._repeats = 0
        self._deadline = time.monotonic() + call.seconds
        self._started_at = time.monotonic()

    def begin(self) -> float:
        """Begins an attempt, and returns how many seconds it may take."""
        self._started_at = time.monotonic()
        left = self._deadline - self._started_at
        if left <= 0:
            raise CodeBoxError("timeout", "There was no response in time.")
        return left

    def has_deleted(self, error: CodeBoxError) -> bool:
        """Whether the error means that an earlier attempt, whose response was lost, has deleted it."""
        return self._is_deletion and self._was_cut and error.code == "not_found"

    def pause_after(self, error: CodeBoxError) -> float:
        """Returns the seconds until the next attempt, or raises the error if there is none."""
        is_cut = error.code == "unavailable" and error.status is None
        had_arrived = is_cut and time.monotonic() - self._started_at > _ARRIVED_SECONDS
        # A repeated request may find the first one still in progress.
        is_put_off = error.retry_after_seconds is not None and (error.code != "conflict" or self._repeats > 0)
        may_repeat = had_arrived or ((is_cut or is_put_off) and self._repeats < self._retries)
        if not self._is_safe or not may_repeat or (is_cut and self._is_conditional):
            raise error
        self._was_cut |= is_cut
        wanted = 0.1 * 2.0**self._repeats if error.retry_after_seconds is None else error.retry_after_seconds
        self._repeats += 1
        seconds = min(wanted, MAX_PAUSE_SECONDS)
        if time.monotonic() + seconds >= self._deadline:
            raise error
        return seconds
