"""What box server and fork server say to each other: JSON with its length in front, and descriptors beside it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, TypedDict

LENGTH = struct.Struct("!I")
# The environment is the largest part of a request.
REQUEST_BYTES = 4 * 1024 * 1024

# A channel, and those of LastWords.
_DESCRIPTORS = 8

# Variables that decide which code an interpreter loads as it starts.
_CODE = ("PYTHON", "LD_", "GLIBC_", "HOME", "VIRTUAL_ENV", "IPYTHON", "JUPYTER_")
# Variables that the runtime or a library reads only once.
_SETTINGS = (
    *("MALLOC_", "LANG", "LC_", "MPL", "NPY_", "PANDAS_"),
    *("OMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NUMEXPR_"),
)
# What a running process could not follow a change of.
STARTUP = (*_CODE, *_SETTINGS)


class ForkRequest(TypedDict):
    """A kernel that is wanted: its command as for a new process, working folder and whole environment."""

    argv: list[str]
    cwd: str
    env: dict[str, str]


def code_variables(env: dict[str, str]) -> dict[str, str]:
    """The part of an environment that can bring code into a process as it starts."""
    return {name: value for name, value in env.items() if name.startswith(_CODE)}


def settings_variables(env: dict[str, str]) -> dict[str, str]:
    """The rest of what a forked process could not follow a change of."""
    return {name: value for name, value in env.items() if name.startswith(_SETTINGS)}


def startup_variables(env: dict[str, str]) -> dict[str, str]:
    """The part of an environment that only counts when a process starts."""
    return {**code_variables(env), **settings_variables(env)}


def encode(message: Any) -> bytes:
    """The bytes behind the length."""
    return json.dumps(message).encode()


def receive_request(peer: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """The next request and the descriptors for the kernel; None when the box server has gone."""
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
