"""Authentication of requests, and settings."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from box import INSTANCE, PACKAGE, TOKEN, Box, text

PATHS = (
    "/codebox/health",
    "/codebox/files/",
    "/codebox/terminals/t/socket",
    "/codebox/tunnel/80",
    "/api/kernels",
    "/api/kernels/k/channels",
    "/api/terminals",
    "/terminals/websocket/1",
    "/nothing",
    "/",
)


def anonymous(box: Box, **headers: str) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=box.socket)
    return httpx.Client(transport=transport, base_url="http://localhost", headers=headers, timeout=20)


@pytest.mark.parametrize("given", [{}, {"X-CodeBox-Token": ""}, {"X-CodeBox-Token": TOKEN + "x"}])
def test_requests_without_the_token_are_refused_on_every_path(box: Box, given: dict[str, str]) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    with anonymous(box, **given) as client:
        for path in PATHS:
            for method in ("GET", "POST", "PUT", "DELETE"):
                assert client.request(method, path).status_code == 401, (method, path)
            assert client.get(path, headers=upgrade).status_code == 401, path


def test_the_body_of_an_unauthenticated_request_is_not_awaited(box: Box) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(20)
        channel.connect(box.socket)
        channel.sendall(b"PUT /codebox/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\n12345")
        assert channel.recv(1000).split()[1] == b"401"
    assert os.listdir(box.data) == []


def test_code_of_the_box_cannot_authenticate(box: Box) -> None:
    code = f"""
import http.client, socket
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect({box.socket!r})
connection = Connection("localhost")
connection.request("GET", "/codebox/contexts")
print(connection.getresponse().status)
"""
    assert text(box.run(code)) == "401\n"


def test_processes_of_the_box_do_not_inherit_the_token(box: Box) -> None:
    for language, code in (("python", "import os; print(dict(os.environ))"), ("bash", "env")):
        assert TOKEN not in text(box.run(code, language))
    assert TOKEN not in text(box.command("env").wait())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"CODEBOX_LISTEN": "tls:127.0.0.1:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tls:[::1]:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tls:0.0.0.0:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tls:localhost:7000"}, "unix:/path or tls:address:port"),
        ({"CODEBOX_LISTEN": "tls:10.0.0.1"}, "unix:/path or tls:address:port"),
        ({"CODEBOX_LISTEN": "unix:relative"}, "unix:/path or tls:address:port"),
        ({"CODEBOX_AWAIT_BLOCKED": "kubernetes:443"}, "CODEBOX_AWAIT_BLOCKED has to be address:port"),
        ({"CODEBOX_TOKEN": ""}, "CODEBOX_TOKEN is missing"),
        ({"CODEBOX_INSTANCE": ""}, "CODEBOX_INSTANCE is missing"),
    ],
)
def test_an_invalid_setting_is_refused_at_startup(folder: Path, given: dict[str, str], message: str) -> None:
    places = {"CODEBOX_ROOT": f"{folder}/root", "CODEBOX_RUNTIME_DIR": f"{folder}/run"}
    identity = {"CODEBOX_INSTANCE": INSTANCE, "CODEBOX_TOKEN": TOKEN}
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **places, **identity, **given}
    program = [sys.executable, "-m", "codebox_server"]
    ended = subprocess.run(program, env=env, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert message in ended.stderr
