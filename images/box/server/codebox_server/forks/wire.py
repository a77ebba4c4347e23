"""Messages between box server and fork server: JSON with a length prefix, plus descriptors."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, TypedDict

LENGTH = struct.Struct("!I")
# The environment is the largest part of a request.
REQUEST_BYTES = 4 * 1024 * 1024

# A channel, and the descriptors of FinalOutput.
_DESCRIPTORS = 8

# Variables that decide which code an interpreter loads at its start.
_CODE = ("PYTHON", "LD_", "GLIBC_", "HOME", "VIRTUAL_ENV", "IPYTHON", "JUPYTER_")
# Variables that the runtime or a library reads only once.
_SETTINGS = (
    *("MALLOC_", "LANG", "LC_", "MPL", "NPY_", "PANDAS_"),
    *("OMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NUMEXPR_"),
)
# Variables whose change a running process cannot follow.
STARTUP = (*_CODE, *_SETTINGS)


class ForkRequest(TypedDict):
    """A requested kernel: its command as for a new process, working folder and whole environment."""

    argv: list[str]
    cwd: str
    env: dict[str, str]


def code_variables(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that can load code into a process at its start."""
    return {name: value for name, value in env.items() if name.startswith(_CODE)}


def settings_variables(env: dict[str, str]) -> dict[str, str]:
    """Return the other variables whose change a forked process could not follow."""
    return {name: value for name, value in env.items() if name.startswith(_SETTINGS)}


def startup_variables(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that only count when a process starts."""
    return {**code_variables(env), **settings_variables(env)}


def encode(message: Any) -> bytes:
    """Return the bytes after the length."""
    return json.dumps(message).encode()


def receive_request(peer: socket.socket) -> tuple[ForkRequest | None, list[int]] | None:
    """Return the next request and the descriptors for the kernel; None when the box server has ended.

    An empty request asks for the libraries. Its descriptor is to be closed when they are loaded.
    """
    head, descriptors, _, _ = socket.recv_fds(peer, LENGTH.size, _DESCRIPTORS)
    if len(head) < LENGTH.size or not descriptors:
        return None
    (length,) = LENGTH.unpack(head)
    body = b""
    while len(body) < length:
        part = peer.recv(length - len(body))
        if not part:
            return None
        body += part
    return json.loads(body), descriptors
