"""No code runs in a box before the network policy of its cluster is in force."""

import socket
from pathlib import Path
from threading import Thread

import httpx
import pytest
from box import INSTANCE, TOKEN, start_box

from codebox_server.system import isolation


def test_a_box_serves_only_once_its_network_is_blocked(folder: Path) -> None:
    served = []
    listener = socket.create_server(("127.0.0.1", 0))

    def be_reachable_for_a_while() -> None:
        with listener:
            for _ in range(20):
                listener.accept()[0].close()
                served.append(_serves(folder / "box.sock"))

    reachable = Thread(target=be_reachable_for_a_while)
    reachable.start()
    port = listener.getsockname()[1]
    with start_box(folder, CODEBOX_AWAIT_BLOCKED=f"127.0.0.1:{port}") as box:
        reachable.join()
        assert box.http.get("/codebox/health").json()["instance"] == INSTANCE
    assert served == [False] * 20


def _serves(path: Path) -> bool:
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=0.2) as client:
        try:
            return client.get("/codebox/health", headers={"X-CodeBox-Token": TOKEN}).is_success
        except httpx.HTTPError:
            return False


def test_a_network_that_stays_open_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "BLOCKED_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(TimeoutError, match="no network policy"):
        isolation.wait_until_blocked(*listener.getsockname())
