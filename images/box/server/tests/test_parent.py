"""The parent of box servers ends by itself. What its forks do is tested with the drivers, which make boxes for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import PACKAGE

START = """
import sys
from codebox_server.parent import parent
parent._FOLDER, parent._MAX_FORKS, parent._IDLE_SECONDS = sys.argv[1], 2, 1.0
parent.run()
"""


@pytest.fixture
def parent(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "seccomp.bpf").touch()
    command = [sys.executable, "-P", "-c", START, str(folder)]
    # A forked process gets the whole environment of its box.
    env = {"PYTHONPATH": str(PACKAGE), "PATH": os.environ["PATH"], "HOME": "/nonexistent", "CODEBOX_ROOT": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/", env=env) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def connect(folder: Path, name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(folder / name))
    return connection


def fork(folder: Path) -> bytes:
    """Return the reply to a request that a fork refuses."""
    with connect(folder, "socket") as connection:
        connection.sendall(f'{{"init":{os.getpid()}}}\n'.encode())
        return connection.recv(1000)


def test_a_parent_that_no_gateway_uses_ends(folder: Path, parent: subprocess.Popen[bytes]) -> None:
    with connect(folder, "gateways"), pytest.raises(subprocess.TimeoutExpired):
        parent.wait(3)
    assert parent.wait(30) == 0


def test_a_parent_that_has_forked_enough_is_left_by_its_gateways(folder: Path, parent: subprocess.Popen[bytes]) -> None:
    with connect(folder, "gateways") as gateway:
        assert b"no pid namespace of its own" in fork(folder)
        gateway.settimeout(1)
        with pytest.raises(TimeoutError):
            gateway.recv(1)
        gateway.settimeout(30)
        assert b"no pid namespace of its own" in fork(folder)
        assert gateway.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(folder, "gateways")
    # What was requested before is still done.
    assert b"no pid namespace of its own" in fork(folder)
    assert parent.wait(30) == 0
