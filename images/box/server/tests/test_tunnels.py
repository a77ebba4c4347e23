"""Tunnels: raw bytes to servers inside the box over the socket of the box server."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from box import HEAD, Box, eventually

Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve, host: str = "127.0.0.1") -> Iterator[int]:
    """Run a server that calls `serve` for each connection; the box server of the tests shares its loopback interface."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:

        def accept() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(65_536):
            connection.sendall(data)


def tunnel(box: Box, port: int | str, upgrade: str = "tunnel") -> tuple[int, socket.socket]:
    """Request a tunnel. Return the status and the connection."""
    near = socket.socket(socket.AF_UNIX)
    near.settimeout(60)
    near.connect(box.socket)
    request = f"GET /codebox/tunnel/{port} HTTP/1.1\r\n{HEAD}Connection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n"
    near.sendall(request.encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += near.recv(1)
    return int(head.split()[1]), near


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while data := connection.recv(65_536):
        parts.append(data)
    return b"".join(parts)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_a_tunnel_reaches_a_server_at_every_local_address(box: Box, host: str) -> None:
    with listening(echo, host) as port:
        status, near = tunnel(box, port)
        assert status == 101
        near.sendall(b"hello")
        assert near.recv(100) == b"hello"
        near.close()


def test_concurrent_transfers_are_unchanged_and_half_close_is_forwarded(box: Box) -> None:
    sent = os.urandom(8 * 1024 * 1024)
    with listening(echo) as port:
        _, near = tunnel(box, port)

        def send() -> None:
            near.sendall(sent)
            near.shutdown(socket.SHUT_WR)

        threading.Thread(target=send).start()
        assert read_all(near) == sent


def test_a_server_that_speaks_first_is_received(box: Box) -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"welcome")
        connection.close()

    with listening(greet) as port:
        assert read_all(tunnel(box, port)[1]) == b"welcome"


def test_the_server_is_notified_when_the_gateway_disconnects(box: Box) -> None:
    ended = threading.Event()

    def wait(connection: socket.socket) -> None:
        read_all(connection)
        ended.set()

    with listening(wait) as port:
        near = tunnel(box, port)[1]
        near.sendall(b"x")
        near.close()
        assert ended.wait(20)


def test_a_stalled_reader_stops_the_writer(box: Box) -> None:
    written = 0

    def flood(connection: socket.socket) -> None:
        nonlocal written
        try:
            while True:
                written += connection.send(bytes(65_536))
        except OSError:
            return

    with listening(flood) as port:
        near = tunnel(box, port)[1]
        seen = -1

        def stands() -> bool:
            nonlocal seen
            before, seen = seen, written
            threading.Event().wait(0.5)
            return before == written > 0

        eventually(stands, 60)
        assert written < 32 * 1024 * 1024
        near.close()


def test_a_port_without_a_server_is_unreachable(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert tunnel(box, port)[0] == 502


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_an_invalid_port_is_refused(box: Box, port: str) -> None:
    assert tunnel(box, port)[0] == 400


def test_another_upgrade_is_refused(box: Box) -> None:
    assert tunnel(box, 80, "websocket")[0] == 400


def test_the_number_of_tunnels_is_bounded_and_a_closed_one_makes_room(fresh_box: Box) -> None:
    box = fresh_box
    with listening(echo) as port:
        held = [tunnel(box, port) for _ in range(64)]
        assert {status for status, _ in held} == {101}
        assert tunnel(box, port)[0] == 429
        for _, near in held:
            near.close()
        eventually(lambda: tunnel(box, port)[0] == 101)
