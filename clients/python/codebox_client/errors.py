"""The error of every refused call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InputFault:
    """One fault in the input: a JSON pointer into the body, or ``/query/…``, ``/path/…``, ``/headers/…``."""

    pointer: str
    detail: str


@dataclass(frozen=True)
class QuotaMet:
    """The quota that was reached: what it allows, and what was in use."""

    name: str
    limit: float
    used: float


class CodeBoxError(Exception):
    """
    A call that was refused or did not arrive.

    Programs branch on ``code`` and, where a code has several, on ``reason``; both are listed in the documentation of
    errors. ``unavailable`` without a ``status`` means that the gateway cannot be reached, ``timeout`` without a
    ``status`` that it did not respond in time.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        reason: str | None = None,
        status: int | None = None,
        errors: tuple[InputFault, ...] = (),
        quota: QuotaMet | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        # Copies, also those of pickle, are made by another call with these arguments.
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.reason = reason
        self.status = status
        self.errors = errors
        self.quota = quota
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


_by_status = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    429: "too_many_requests",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> CodeBoxError:
    """The error of a response: a problem+json, or the response of a proxy before the gateway."""
    retry_after = headers.get("retry-after", "")
    seconds = float(retry_after) if retry_after.isdecimal() else None
    request_id = headers.get("x-request-id")
    try:
        problem: dict[str, Any] = json.loads(body)
        quota = problem.get("quota")
        return CodeBoxError(
            problem["code"],
            problem["detail"],
            reason=problem.get("reason"),
            status=status,
            errors=tuple(InputFault(fault["pointer"], fault["detail"]) for fault in problem.get("errors") or ()),
            quota=QuotaMet(quota["name"], quota["limit"], quota["used"]) if quota else None,
            request_id=problem.get("requestId", request_id),
            retry_after_seconds=problem.get("retryAfterSeconds", seconds),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        received = f"{status} {body[:200].decode('utf-8', 'replace')}".strip()
        return CodeBoxError(
            _by_status.get(status, "internal"),
            f"The response was {received}",
            status=status,
            request_id=request_id,
            retry_after_seconds=seconds,
        )
