"""Runs that share one connection: each has its own events, and none waits for another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import uuid
from typing import Any

import pytest
from box import TOKEN, Box, eventually, refusal, text
from websocket import ABNF, WebSocket, WebSocketBadStatusException, WebSocketConnectionClosedException

KIB = 1024
BODY = {"language": "python", "timeoutMs": 30_000}


class Client:
    """The connection, with the replies so far."""

    def __init__(self, box: Box, token: str = TOKEN) -> None:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(box.socket)
        stream.settimeout(60)
        self.ws = WebSocket()
        self.ws.connect("ws://localhost/codebox/runs", socket=stream, header={"X-CodeBox-Token": token})
        self.marks: dict[str, list[str]] = {}
        self.contents: dict[str, bytes] = {}

    def send(self, execution_id: str, body: bytes) -> None:
        self.ws.send_binary(execution_id.encode() + b"\n" + body)

    def run(self, code: str, **fields: Any) -> str:
        execution_id = uuid.uuid4().hex
        self.send(execution_id, json.dumps({**BODY, "code": code, **fields}).encode())
        return execution_id

    def receive(self) -> bool:
        """Receive one reply. Return False when the server has closed the connection."""
        opcode, data = self.ws.recv_data()
        if opcode == ABNF.OPCODE_CLOSE:
            return False
        head, _, content = data.partition(b"\n")
        execution_id, mark = head.decode().split(" ")
        self.marks.setdefault(execution_id, []).append(mark)
        self.contents[execution_id] = self.contents.get(execution_id, b"") + content
        return True

    def until(self, execution_id: str, *marks: str) -> None:
        while self.marks.get(execution_id, [""])[-1] not in marks:
            assert self.receive()

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        """Return the events so far, after those that end the replies."""
        self.until(execution_id, "end", "rest")
        return [json.loads(line) for line in self.contents[execution_id].splitlines() if line]

    def refused(self, execution_id: str, body: bytes) -> tuple[str, str, str | None]:
        self.send(execution_id, body)
        before = len(self.marks.get(execution_id, []))
        while len(self.marks.get(execution_id, [])) == before:
            assert self.receive()
        error = json.loads(self.contents.pop(execution_id))
        return self.marks[execution_id][-1], error["code"], error.get("pointer")


@pytest.fixture
def client(box: Box) -> Any:
    connected = Client(box)
    yield connected
    connected.ws.shutdown()


def test_a_run_has_the_events_that_a_request_would_have(box: Box, client: Client) -> None:
    run = client.run("print('a')\n1 + 1")
    events = client.events(run)
    assert ([event["type"] for event in events], client.marks[run][-1]) == (
        ["started", "stdout", "result", "done"],
        "end",
    )
    with box.http.stream("GET", f"/codebox/executions/{run}/events") as response:
        assert [json.loads(line) for line in response.iter_lines() if line] == events


def test_runs_of_several_contexts_do_not_wait_for_each_other(box: Box, client: Client) -> None:
    slow = client.run("input('go? ')", context=box.context())
    quick = [client.run(f"print({n})", context=box.context()) for n in range(3)]
    assert [text(client.events(run)) for run in quick] == ["0\n", "1\n", "2\n"]
    assert set(client.marks[slow]) <= {"more"}
    eventually(lambda: box.http.get(f"/codebox/executions/{slow}").json().get("waitingForInput"))
    assert box.http.post(f"/codebox/executions/{slow}/input", json={"text": "yes"}).status_code == 204
    assert client.events(slow)[-1]["status"] == "ok"


def test_a_queued_run_is_accepted_before_it_has_events(box: Box, client: Client) -> None:
    first = client.run("input('go? ')")
    queued = client.run("2")
    client.until(queued, "more")
    assert client.contents[queued] == b""
    eventually(lambda: box.http.get(f"/codebox/executions/{first}").json().get("waitingForInput"))
    assert box.http.post(f"/codebox/executions/{first}/input", json={"text": "yes"}).status_code == 204
    assert [event["type"] for event in client.events(queued)] == ["started", "result", "done"]


def test_more_events_than_may_wait_are_left_to_a_request(box: Box, client: Client) -> None:
    long = client.run("for n in range(100): print('x' * 10_000, flush=True)")
    events = client.events(long)
    assert client.marks[long][-1] == "rest"
    assert len(client.contents[long]) <= 256 * KIB
    with box.http.stream("GET", f"/codebox/executions/{long}/events", params={"after": len(events)}) as response:
        others = [json.loads(line) for line in response.iter_lines() if line]
    assert [event["seq"] for event in events + others] == list(range(1, len(events) + len(others) + 1))
    assert text(events + others) == ("x" * 10_000 + "\n") * 100
    assert client.events(client.run("3"))[-1]["status"] == "ok"


def test_each_reply_counts_more_than_its_events(box: Box, client: Client) -> None:
    many = client.run("import time\nfor n in range(600): display(n), time.sleep(0.005)")
    client.events(many)
    assert client.marks[many][-1] == "rest"
    assert len(client.marks[many]) * KIB + len(client.contents[many]) <= 257 * KIB


def test_refusals_are_those_of_a_request(box: Box, client: Client) -> None:
    known = client.run("1")
    client.events(known)
    body = json.dumps({**BODY, "code": "1"}).encode()
    bodies = {
        known: body,
        "a" * 201: body,
        "no-json": b"{",
        "no-context": json.dumps({**BODY, "code": "1", "context": "none"}).encode(),
        "no-language": json.dumps({**BODY, "code": "1", "language": "cobol"}).encode(),
        "no-field": json.dumps({**BODY, "code": "1", "wish": 1}).encode(),
    }
    client.contents.clear()
    refused = {name: client.refused(name, sent) for name, sent in bodies.items()}
    for name, sent in bodies.items():
        status, code, pointer = refusal(box.http.put(f"/codebox/executions/{name}", content=sent))
        assert refused[name] == (str(status), code, pointer), name
    assert client.events(client.run("3"))[-1]["status"] == "ok"


def test_a_run_goes_on_without_its_client(box: Box) -> None:
    leaver = Client(box)
    run = leaver.run("import time\ntime.sleep(1)\n'still here'")
    leaver.until(run, "more")
    leaver.ws.shutdown()
    done = eventually(lambda: box.http.get(f"/codebox/executions/{run}").json()["done"])
    assert done["status"] == "ok"


def test_a_run_whose_client_leaves_at_once_goes_on_although_its_kernel_is_yet_to_start(fresh_box: Box) -> None:
    leaver = Client(fresh_box)
    run = leaver.run("1 + 1")
    leaver.ws.shutdown()
    eventually(lambda: fresh_box.http.get(f"/codebox/executions/{run}").status_code == 200)
    done = eventually(lambda: fresh_box.http.get(f"/codebox/executions/{run}").json()["done"])
    assert done["status"] == "ok"


def test_a_connection_needs_the_token(box: Box) -> None:
    with pytest.raises(WebSocketBadStatusException) as refused:
        Client(box, token="wrong")
    assert refused.value.status_code == 401


def test_a_stopping_server_reports_no_end(fresh_box: Box) -> None:
    client = Client(fresh_box)
    run = client.run("import time; time.sleep(60)")
    while b"started" not in client.contents.get(run, b""):
        assert client.receive()
    os.kill(fresh_box.process.pid, signal.SIGTERM)
    with contextlib.suppress(WebSocketConnectionClosedException):
        while client.receive():
            pass
    assert fresh_box.process.wait(30) == 128 + signal.SIGTERM
    assert [json.loads(line)["type"] for line in client.contents[run].splitlines() if line] == ["started"]
