"""TLS in front of the server, with the key of its instance."""

import os
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from box import HEAD, Box, start_box, text


@pytest.fixture(scope="module")
def own_address() -> str:
    """An address of this host that is not a loopback address; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


@pytest.fixture
def tls_box(folder: Path, own_address: str) -> Iterator[Box]:
    with socket.socket() as free:
        free.bind((own_address, 0))
        port = free.getsockname()[1]
    address = f"{own_address}:{port}"
    with start_box(folder, f"https://{address}", forks=False, CODEBOX_LISTEN=f"tls:{address}") as running:
        yield running


def connect(box: Box) -> ssl.SSLSocket:
    url = httpx.URL(box.url or "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((url.host, url.port or 0), 20))


def test_a_server_with_tls_listens_on_its_address_only_and_refuses_plain_http(tls_box: Box) -> None:
    assert text(tls_box.run("print(6 * 7)")) == "42\n"
    url = httpx.URL(tls_box.url or "")
    with httpx.Client(verify=False, timeout=20) as anonymous:
        assert anonymous.get(f"{url}/codebox/health").status_code == 401
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{url.host}:{url.port}/codebox/health", timeout=20)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", url.port or 0), 5)
    # Tunnels lead to the loopback interface, so they do not lead here.
    upgrade = {"Connection": "Upgrade", "Upgrade": "tunnel"}
    assert tls_box.http.get(f"/codebox/tunnel/{url.port}", headers=upgrade).status_code == 502


def test_large_bodies_and_tunnels_pass_through_tls(tls_box: Box) -> None:
    content = os.urandom(8 * 1024 * 1024)
    assert tls_box.http.put("/codebox/files/large", content=content).status_code == 201
    assert tls_box.http.get("/codebox/files/large").content == content
    with socket.create_server(("127.0.0.1", 0)) as server, connect(tls_box) as near:
        head = f"GET /codebox/tunnel/{server.getsockname()[1]} HTTP/1.1\r\n{HEAD}"
        near.sendall(f"{head}Connection: Upgrade\r\nUpgrade: tunnel\r\n\r\n".encode())
        far = server.accept()[0]
        while not near.recv(1000).endswith(b"\r\n\r\n"):
            pass
        near.sendall(b"ping")
        assert far.recv(100) == b"ping"

        def send() -> None:
            with far:
                far.sendall(content)

        # The buffers of the connection cannot hold all of it, so both ends work at once.
        with ThreadPoolExecutor() as threads:
            sent = threads.submit(send)
            received = b""
            while data := near.recv(65_536):
                received += data
            sent.result()
        assert received == content
