"""Terminals: a real shell on a pseudo terminal, with clients that come and go."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from box import TOKEN, Box, eventually, of, text
from websocket import ABNF, WebSocket


class Client:
    """A WebSocket of a terminal."""

    def __init__(self, box: Box, terminal_id: str, receive_buffer: int | None = None) -> None:
        self.stream = socket.socket(socket.AF_UNIX)
        if receive_buffer is not None:
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.stream.connect(box.socket)
        self.ws = WebSocket()
        self.stream.settimeout(60)
        address = f"ws://localhost/codebox/terminals/{terminal_id}/socket"
        self.ws.connect(address, socket=self.stream, header={"X-CodeBox-Token": TOKEN})
        self.output = bytearray()
        self.controls: list[dict[str, Any]] = []

    def receive(self) -> bool:
        """Receive one message. Return False when the server has closed the connection."""
        opcode, data = self.ws.recv_data()
        if opcode == ABNF.OPCODE_CLOSE:
            return False
        if opcode == ABNF.OPCODE_TEXT:
            self.controls.append(json.loads(data))
        else:
            self.output += data
        return True

    def keys(self, data: str | bytes) -> None:
        self.ws.send_binary(data.encode() if isinstance(data, str) else data)

    def until(self, part: str | bytes) -> str:
        part = part.encode() if isinstance(part, str) else part
        at = 0
        while self.output.find(part, at) < 0:
            # Search only the new part, as there may be many messages.
            at = max(0, len(self.output) - len(part))
            assert self.receive(), self.output
        return self.output.decode(errors="replace")

    def ready(self) -> dict[str, Any]:
        while not self.controls:
            self.receive()
        return self.controls[0]

    def end(self) -> dict[str, Any]:
        while self.receive():
            pass
        return self.controls[-1]

    def leave(self) -> None:
        self.ws.shutdown()


def start(box: Box, **fields: Any) -> str:
    terminal_id = uuid.uuid4().hex
    response = box.http.put(f"/codebox/terminals/{terminal_id}", json={"cols": 80, "rows": 24, **fields})
    assert response.status_code == 201, response.text
    return terminal_id


@pytest.fixture
def terminal(box: Box) -> Any:
    terminal_id = start(box)
    yield terminal_id
    box.http.delete(f"/codebox/terminals/{terminal_id}")


def listed(box: Box) -> list[str]:
    return [item["id"] for item in box.http.get("/codebox/terminals").json()["items"]]


def test_a_shell_has_the_folder_and_environment_of_commands(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    assert client.ready() == {
        "type": "ready",
        "cols": 80,
        "rows": 24,
        "replayedBytes": client.controls[0]["replayedBytes"],
    }
    client.keys("echo [$PWD] [$HOME] [$TERM] [$(tty)] [$(cat /proc/self/oom_score_adj)]; which python3\r")
    seen = client.until("\n/")
    command = text(box.command("echo [$PWD] [$HOME]; which python3").wait())
    place, python = command.split("\n")[:2]
    assert f"{place} [xterm-256color] [/dev/pts/" in seen
    assert "] [1000]" in seen
    client.until(f"\n{python}")
    client.leave()


def test_programs_are_notified_of_the_size_of_the_screen(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    client.keys("(trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done)\r")
    client.until("24 80")
    client.ws.send(json.dumps({"type": "resize", "cols": 111, "rows": 33}))
    client.until("33 111")
    assert box.http.get(f"/codebox/terminals/{terminal}").json()["cols"] == 111
    client.leave()


def test_control_keys_work(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    # Printed by the process that is to receive the key, which owns the terminal by then.
    client.keys("bash -c \"echo re''ady; exec sleep 100\"\r")
    client.until("ready")
    client.keys(b"\x03")
    client.keys("echo status=$?\r")
    client.until("status=130")
    client.leave()


def test_bytes_pass_unchanged_both_ways(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    data = "\u00e9\u4e16\U0001f600".encode()
    client.keys("stty raw -echo; echo re''ady; head -c 9 | od -An -tx1; printf '\\377\\376'; stty sane\r")
    client.until("ready")
    for byte in data:
        client.keys(bytes([byte]))
    client.until(" ".join(f"{byte:02x}" for byte in data))
    client.until(b"\xff\xfe")
    client.leave()


def test_a_returning_client_gets_the_end_of_the_output_from_the_start_of_a_line(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    client.keys("seq 100000; echo D''ONE\r")
    client.until("DONE")
    client.leave()
    eventually(lambda: box.http.get(f"/codebox/terminals/{terminal}").json()["clients"] == 0)
    again = Client(box, terminal)
    replayed = again.ready()["replayedBytes"]
    assert 200_000 < replayed <= 256 * 1024
    again.until("DONE")
    numbers = again.output[:replayed].decode().split("\r\n")
    assert numbers[0].isdigit()
    assert int(numbers[1]) == int(numbers[0]) + 1
    again.keys("echo al''ive\r")
    again.until("alive")
    again.leave()


def test_a_full_screen_program_redraws_for_a_returning_client(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    script = "printf '\\033[?10'; sleep 0.2; printf '49h'; seq -s ' ' 60000; trap 'stty size; echo dra''wn' WINCH"
    client.keys(f"bash -c \"{script}; echo rea''dy; while :; do sleep 0.05; done\"\r")
    client.until("ready\r\n")
    client.leave()
    again = Client(box, terminal)
    again.ready()
    again.until("24 80\r\ndrawn")
    assert again.output.startswith(b"\x1b[?1049h")
    again.leave()


def test_several_clients_share_a_terminal(box: Box, terminal: str) -> None:
    first, second = Client(box, terminal), Client(box, terminal)
    first.ready()
    second.ready()
    first.keys("echo fr''om-first\r")
    second.until("from-first")
    second.keys("echo fr''om-second\r")
    first.until("from-second")
    assert box.http.get(f"/codebox/terminals/{terminal}").json()["clients"] == 2
    first.leave()
    second.leave()


def test_unread_output_is_held_up_and_output_without_clients_costs_no_memory(box: Box, terminal: str) -> None:
    def memory() -> int:
        status = Path(f"/proc/{box.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    client = Client(box, terminal)
    client.keys("yes $(printf %01000d 1)\r")
    client.until("1\r\n000")
    before = memory()
    pid = box.http.get(f"/codebox/terminals/{terminal}").json()["pid"]

    def written() -> int:
        (child,) = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return int(Path(f"/proc/{child}/io").read_text().split("wchar: ")[1].split()[0]) if os.getuid() == 0 else 0

    def held_up() -> bool:
        held = written()
        time.sleep(1)
        return written() - held < 1024 * 1024

    eventually(held_up)
    held = written()
    client.leave()
    eventually(lambda: os.getuid() != 0 or written() - held > 1024 * 1024)
    assert box.http.get("/codebox/health").elapsed.total_seconds() < 5
    assert memory() - before < 20 * 1024 * 1024
    again = Client(box, terminal)
    again.keys(b"\x03")
    again.keys("echo st''ill here\r")
    again.until("still here")
    again.leave()


def test_the_exit_of_the_shell_is_reported_and_removes_the_terminal(box: Box) -> None:
    terminal = start(box)
    client = Client(box, terminal)
    client.keys("echo last words; exit 7\r")
    assert client.end() == {"type": "exit", "exitCode": 7, "signal": None}
    assert b"last words" in client.output
    assert terminal not in listed(box)
    assert box.http.get(f"/codebox/terminals/{terminal}").status_code == 404


def test_ending_a_terminal_ends_everything_it_started(box: Box) -> None:
    terminal = start(box)
    client = Client(box, terminal)
    client.keys("sleep 71 & nohup sleep 72 & setsid -f sleep 73; (trap '' HUP; sleep 74) & sleep 75\r")

    def running() -> set[str]:
        lines = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
        found = set()
        for line in lines:
            try:
                found.add(line.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
            except OSError:
                continue
        return found & {f"sleep {n}" for n in range(71, 76)}

    eventually(lambda: len(running()) == 5)
    assert box.http.delete(f"/codebox/terminals/{terminal}").status_code == 204
    assert running() == set()
    assert client.end()["type"] == "exit"
    assert box.http.delete(f"/codebox/terminals/{terminal}").status_code == 404


def test_unread_input_is_bounded_and_its_loss_is_reported(box: Box, terminal: str) -> None:
    client = Client(box, terminal)
    client.keys("stty raw -echo; echo re''ady; sleep 20\r")
    client.until("ready")
    client.ready()
    client.keys(b"x" * (3 * 1024 * 1024))
    while client.controls[-1]["type"] != "error":
        client.receive()
    assert client.controls[-1]["code"] == "too_many_requests"
    client.leave()


def test_the_number_of_terminals_is_bounded(box: Box) -> None:
    terminals = [start(box) for _ in range(16)]
    response = box.http.put(f"/codebox/terminals/{uuid.uuid4().hex}", json={"cols": 80, "rows": 24})
    assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")
    assert sorted(listed(box)) == sorted(terminals)
    assert of(box.run("1 + 1"), "result")
    for terminal in terminals:
        box.http.delete(f"/codebox/terminals/{terminal}")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [({"cols": 0}, "/cols"), ({"rows": 100_000}, "/rows"), ({"cwd": "none"}, "/cwd"), ({"x": 1}, "/x")],
)
def test_a_bad_request_is_refused_with_its_pointer(box: Box, fields: dict[str, Any], pointer: str) -> None:
    response = box.http.put(f"/codebox/terminals/{uuid.uuid4().hex}", json={"cols": 80, "rows": 24, **fields})
    assert (response.status_code, response.json()["pointer"]) == (400, pointer)


def test_the_socket_of_an_unknown_terminal_is_404(box: Box) -> None:
    response = box.http.get("/codebox/terminals/none/socket", headers={"Upgrade": "websocket", "Connection": "Upgrade"})
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_requests_type_into_a_terminal_and_resize_it(box: Box) -> None:
    terminal_id = f"term-{uuid.uuid4()}"
    url = f"/codebox/terminals/{terminal_id}"
    made = box.http.put(url, json={"cols": 80, "rows": 24, "env": {"MINE": "own", "CODEBOX_TERMINAL": "x"}})
    assert made.status_code == 201
    client = Client(box, terminal_id)
    assert box.http.patch(url, json={"cols": 60, "rows": 20}).status_code == 204
    keys = base64.b64encode(b'echo "$MINE-$(stty size)"\r').decode()
    assert box.http.patch(url, json={"base64": keys}).status_code == 204
    client.until("own-20 60")
    for refused in ({"cols": 60}, {"base64": "?"}, {"keys": ""}):
        assert box.http.patch(url, json=refused).status_code == 400
    assert box.http.delete(url).status_code == 204
    assert box.http.patch(url, json={"base64": keys}).status_code == 404
