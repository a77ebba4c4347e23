"""Turns a fork of the parent into the server of a box."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback

from codebox_server.forks.ready import ReadyForkServer, fork_ready
from codebox_server.forks.renewal import renew
from codebox_server.parent import containers
from codebox_server.parent.containers import Holder
from codebox_server.parent.entry import Entry, Init, attach, drop, join
from codebox_server.parent.loading import Loaded
from codebox_server.system.confinement import confine

_ENTRY_SECONDS = 20
_LINE_BYTES = 256 * 1024
_ERROR_CHARACTERS = 500


def become_box(connection: socket.socket, init: Init, loaded: Loaded, program: bytes) -> None:
    """Enter the box with this first process, in whose pid namespace this is, and serve it. Never returns.

    The gateway sends what else is needed to enter, and receives `ready` or a reason. Only then it sends the
    environment.
    """
    # Whatever happens, no half-made process is left behind.
    signal.alarm(_ENTRY_SECONDS)
    try:
        holder, forks = _enter(connection, init, loaded, program)
        connection.sendall(b"ready\n")
        environment: dict[str, str] = json.loads(_line(connection))["environment"]
        connection.close()
        signal.alarm(0)
    except BaseException as error:
        report(connection, error)
        os._exit(1)
    _serve(environment, loaded, forks, holder)


def _enter(connection: socket.socket, init: Init, loaded: Loaded, program: bytes) -> tuple[Holder, ReadyForkServer]:
    """Return in the process of the box server only."""
    _close_all_but(connection.fileno(), init.descriptor)
    entry: Entry = json.loads(_line(connection))
    _require_gateway(connection)
    join(init, entry)
    # This process ends at once, so that the init process of the box adopts the next one. That has the connection too:
    # once it has ended, no process is left that could enter the box.
    if os.fork() > 0:
        os._exit(0)
    # A fork has no alarm.
    signal.alarm(_ENTRY_SECONDS)
    os.setsid()
    os.chdir("/mnt")
    _require_gateway(connection)
    if "container" in entry:
        drop(entry["uid"], program)
        holder = containers.attach(lambda: _require_gateway(connection))
    else:
        holder = attach()
        drop(entry["uid"], program)
    confine()
    return holder, fork_ready(loaded.startup, iter(()), is_shared=True)


def _serve(environment: dict[str, str], loaded: Loaded, forks: ReadyForkServer, holder: Holder) -> None:
    code = 1
    os.environ.clear()
    os.environ.update(environment)
    renew()
    loaded.restore()
    from codebox_server.serving import serve
    from codebox_server.system import leaving

    leaving.report_to(holder.pipe, holder.pid)
    gc.enable()
    try:
        serve(forks=forks, made=loaded.app)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        # To the log of the box, like the reason above.
        traceback.print_exc()
    finally:
        leaving.leave(code)


def _close_all_but(*kept: int) -> None:
    """Close all descriptors beyond standard output, whose targets are replaced in the box."""
    begin = 3
    for end in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(begin, end)
        begin = end + 1


def _require_gateway(connection: socket.socket) -> None:
    """Raise ConnectionError when the gateway has given up, also if it has sent everything before that."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    raise ConnectionError("the gateway has given up")


def _line(connection: socket.socket) -> bytes:
    """Receive one line, and nothing after it. Raises ConnectionError when the gateway has ended or given up."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(_LINE_BYTES - len(line))
        if not part:
            raise ConnectionError("the gateway has given up")
        line += part
    return line


def report(connection: socket.socket, error: BaseException) -> None:
    """Tell the gateway why there is no box server."""
    text = f"{type(error).__name__}: {error}"
    try:
        connection.sendall(text[:_ERROR_CHARACTERS].replace("\n", " ").encode() + b"\n")
    except OSError:
        # The gateway has gone; nobody wants to know.
        return
