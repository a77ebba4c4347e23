"""W3C Trace Context: a box has no network, so it tells the gateway what the gateway sends on to the collector."""

from __future__ import annotations

import re

from tornado.httputil import HTTPHeaders, HTTPServerRequest

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_id(request: HTTPServerRequest) -> str | None:
    """The trace that a request belongs to."""
    found = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return found and found[1]


def join_trace(request: HTTPServerRequest, answer: HTTPHeaders) -> None:
    """Name the span of a traced request in the head of its answer, and the time that it took to get there."""
    if trace_id(request) is None:
        return
    answer["traceresponse"] = request.headers["traceparent"]
    answer["Server-Timing"] = f"box;dur={request.request_time() * 1000:.3f}"
