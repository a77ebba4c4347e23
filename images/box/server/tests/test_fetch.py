"""Downloads of URLs into files."""

import http.server
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from box import Box, eventually, refusal
from file_calls import FILES, do, put

from codebox_server.errors import BoxError
from codebox_server.files.jobs import fetch as fetching


class Origin(http.server.BaseHTTPRequestHandler):
    """A server that fails in one way per path."""

    seen: list[dict[str, str]] = []

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        path = self.path.split("?")[0]
        if path == "/file":
            self._respond(200, b"payload")
        elif path == "/loop":
            self._respond(302, b"", Location="/loop?" + self.path)
        elif path == "/away":
            self._respond(302, b"", Location=f"http://localhost:{self.connection.getsockname()[1]}/file")
        elif path == "/scheme":
            self._respond(302, b"", Location="file:///etc/passwd")
        elif path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(65536))
            except OSError:
                return
        elif path == "/reset":
            # Reset the connection instead of responding.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
        elif path == "/close":
            self.close_connection = True
        elif path == "/silent":
            threading.Event().wait(20)
        else:
            self._respond(404, b"no")

    def _respond(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_a_url_is_saved_as_a_file(box: Box, origin: str) -> None:
    response = do(box, op="fetch", url=origin + "/file", path="in/f", headers={"X-Mine": "secret"})
    assert (response.status_code, response.json()["path"], response.json()["sizeBytes"]) == (201, "in/f", 7)
    assert Origin.seen[-1]["x-mine"] == "secret"
    assert do(box, op="fetch", url=origin + "/away", path="in/g", headers={"X-Mine": "secret"}).status_code == 201
    assert "x-mine" not in Origin.seen[-1]
    assert os.listdir(box.upload) == []


@pytest.mark.parametrize("path", ["/none", "/loop", "/scheme", "/short", "/reset", "/close"])
def test_a_failed_fetch_is_reported_and_changes_nothing(box: Box, origin: str, path: str) -> None:
    put(box, "f", b"old")
    response = do(box, op="fetch", url=origin + path, path="f")
    assert refusal(response) == (400, "invalid_request", "/url"), response.text
    assert box.http.get(FILES + "f").content == b"old"
    assert os.listdir(box.upload) == []


def test_a_server_that_accepts_the_request_and_stays_silent_is_reported(
    origin: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "TRANSFER_STALL_SECONDS", 0.5)
    with pytest.raises(BoxError, match="does not respond") as refused:
        fetching.fetch({"url": origin + "/silent", "temporary": str(folder / "f")})
    assert (refused.value.code, refused.value.pointer) == ("invalid_request", "/url")


def test_a_fetch_is_bounded_in_size_and_time(box: Box, origin: str) -> None:
    assert refusal(do(box, op="fetch", url=origin + "/endless", path="f", maxBytes=1000)) == (
        413,
        "too_large",
        "/maxBytes",
    )
    assert refusal(do(box, op="fetch", url=origin + "/file", path="f", maxBytes=3)) == (413, "too_large", "/maxBytes")
    assert refusal(do(box, op="fetch", url=origin + "/silent", path="f", timeoutSeconds=1))[:2] == (504, "timeout")
    for url in ("file:///etc/passwd", "ftp://localhost/x", "nonsense", "http://", "http://127.0.0.1:1/"):
        assert refusal(do(box, op="fetch", url=url, path="f")) == (400, "invalid_request", "/url"), url
    assert os.listdir(box.upload) == []
    assert os.listdir(box.data) == []


def test_a_disconnect_during_a_fetch_leaves_nothing_behind(box: Box, origin: str) -> None:
    with pytest.raises(httpx.TimeoutException), box.client() as client:
        client.post("/codebox/files", json={"op": "fetch", "url": origin + "/endless", "path": "f"}, timeout=1)
    eventually(lambda: os.listdir(box.upload) == [])
    assert os.listdir(box.data) == []
