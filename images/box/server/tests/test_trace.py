"""A traced request is told of in the head of its answer, whatever the answer is."""

from __future__ import annotations

import re
import uuid

from box import Box

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TIMING = re.compile(r"box;dur=\d+\.\d{3}")


def test_the_answer_names_the_span_and_the_time(box: Box) -> None:
    for path in ("/codebox/health", "/codebox/contexts", "/codebox/executions/nothing", "/codebox/files/"):
        answer = box.http.get(path, headers={"traceparent": PARENT})
        assert answer.headers["traceresponse"] == PARENT, path
        assert TIMING.fullmatch(answer.headers["server-timing"]), path


def test_a_stream_tells_in_its_head(box: Box) -> None:
    path = f"/codebox/executions/{uuid.uuid4().hex}"
    body = {"code": "1", "language": "python", "timeoutMs": 30_000}
    with box.http.stream("PUT", path, json=body, headers={"traceparent": PARENT}) as answer:
        assert answer.headers["traceresponse"] == PARENT
        answer.read()


def test_what_is_no_trace_is_left_out(box: Box) -> None:
    for given in (None, "", "00-1-2-3", PARENT + "x", PARENT.upper(), "x" * 1000):
        answer = box.http.get("/codebox/health", headers={} if given is None else {"traceparent": given})
        assert "traceresponse" not in answer.headers, given
        assert "server-timing" not in answer.headers, given
