"""Who is let in, and how the server shows which one it is."""

import hmac
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from box import INSTANCE, PACKAGE, TOKEN, Box, start_box, text

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


def stranger(box: Box, **headers: str) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=box.socket)
    return httpx.Client(transport=transport, base_url="http://localhost", headers=headers, timeout=20)


@pytest.mark.parametrize("given", [{}, {"X-CodeBox-Token": ""}, {"X-CodeBox-Token": TOKEN + "x"}])
def test_what_does_not_carry_the_token_is_refused_on_every_path(box: Box, given: dict[str, str]) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    with stranger(box, **given) as client:
        for path in PATHS:
            for method in ("GET", "POST", "PUT", "DELETE"):
                assert client.request(method, path).status_code == 401, (method, path)
            assert client.get(path, headers=upgrade).status_code == 401, path


def test_a_stranger_s_body_is_not_waited_for(box: Box) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(20)
        channel.connect(box.socket)
        channel.sendall(b"PUT /codebox/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\n12345")
        assert channel.recv(1000).split()[1] == b"401"
    assert os.listdir(box.data) == []


def test_code_of_the_box_is_a_stranger(box: Box) -> None:
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


def test_nothing_that_runs_in_the_box_is_given_the_token(box: Box) -> None:
    for language, code in (("python", "import os; print(dict(os.environ))"), ("bash", "env")):
        assert TOKEN not in text(box.run(code, language))
    assert TOKEN not in text(box.command("env").wait())


def test_the_server_proves_which_instance_it_is_before_anybody_sends_the_token(box: Box) -> None:
    with stranger(box) as client:
        said = client.get("/codebox/identity", params={"challenge": "c1"}).json()
    assert said == {"instance": INSTANCE, "proof": hmac.digest(TOKEN.encode(), b"c1", "sha256").hex()}


@pytest.fixture(scope="module")
def own_address() -> str:
    """An address of this host that is not a loopback address; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


@pytest.fixture
def tcp_box(folder: Path, own_address: str) -> Iterator[Box]:
    with socket.socket() as free:
        free.bind((own_address, 0))
        port = free.getsockname()[1]
    with start_box(folder, f"http://{own_address}:{port}", CODEBOX_LISTEN=f"tcp:{own_address}:{port}") as running:
        yield running


def test_it_serves_on_tcp_and_nowhere_else(tcp_box: Box) -> None:
    assert text(tcp_box.run("print(6 * 7)")) == "42\n"
    assert not os.path.exists(tcp_box.socket)
    port = httpx.URL(tcp_box.url or "").port
    assert httpx.get(f"{tcp_box.url}/codebox/health", timeout=20).status_code == 401
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0), 5)
    # Tunnels lead to the loopback interface, so they do not lead here.
    upgrade = {"Connection": "Upgrade", "Upgrade": "tunnel"}
    assert tcp_box.http.get(f"/codebox/tunnel/{port}", headers=upgrade).status_code == 502


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"CODEBOX_LISTEN": "tcp:127.0.0.1:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tcp:[::1]:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tcp:0.0.0.0:7000"}, "loopback"),
        ({"CODEBOX_LISTEN": "tcp:localhost:7000"}, "unix:/path or tcp:address:port"),
        ({"CODEBOX_LISTEN": "tcp:10.0.0.1"}, "unix:/path or tcp:address:port"),
        ({"CODEBOX_LISTEN": "unix:relative"}, "unix:/path or tcp:address:port"),
        ({"CODEBOX_TOKEN": ""}, "CODEBOX_TOKEN is missing"),
        ({"CODEBOX_INSTANCE": ""}, "CODEBOX_INSTANCE is missing"),
    ],
)
def test_a_wrong_setting_is_told_at_the_start(given: dict[str, str], told: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), "CODEBOX_INSTANCE": INSTANCE, "CODEBOX_TOKEN": TOKEN, **given}
    program = [sys.executable, "-m", "codebox_server"]
    ended = subprocess.run(program, env=env, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert told in ended.stderr
