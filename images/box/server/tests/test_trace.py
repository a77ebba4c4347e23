"""Every response to a traced request carries its trace and its duration in the head."""

from __future__ import annotations

import re
import uuid

from box import Box

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TIMING = re.compile(r"box;dur=\d+\.\d{3}")


def test_responses_to_traced_requests_carry_the_span_and_its_duration(box: Box) -> None:
    for path in ("/codebox/health", "/codebox/contexts", "/codebox/executions/nothing", "/codebox/files/"):
        response = box.http.get(path, headers={"traceparent": PARENT})
        assert response.headers["traceresponse"] == PARENT, path
        assert TIMING.fullmatch(response.headers["server-timing"]), path


def test_a_stream_carries_the_span_in_its_head(box: Box) -> None:
    path = f"/codebox/executions/{uuid.uuid4().hex}"
    body = {"code": "1", "language": "python", "timeoutMs": 30_000}
    with box.http.stream("PUT", path, json=body, headers={"traceparent": PARENT}) as response:
        assert response.headers["traceresponse"] == PARENT
        response.read()


def test_an_invalid_trace_is_ignored(box: Box) -> None:
    for given in (None, "", "00-1-2-3", PARENT + "x", PARENT.upper(), "x" * 1000):
        response = box.http.get("/codebox/health", headers={} if given is None else {"traceparent": given})
        assert "traceresponse" not in response.headers, given
        assert "server-timing" not in response.headers, given
