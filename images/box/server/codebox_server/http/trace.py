"""W3C Trace Context: a box has no network, so it returns its timing to the gateway, which sends it to the collector."""

from __future__ import annotations

import re

from tornado.httputil import HTTPHeaders, HTTPServerRequest

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_id(request: HTTPServerRequest) -> str | None:
    """Return the trace that a request belongs to."""
    found = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return found and found[1]


def join_trace(request: HTTPServerRequest, response: HTTPHeaders) -> None:
    """Add the span of a traced request to the head of its response, with the time that it took."""
    if trace_id(request) is None:
        return
    response["traceresponse"] = request.headers["traceparent"]
    response["Server-Timing"] = f"box;dur={request.request_time() * 1000:.3f}"
