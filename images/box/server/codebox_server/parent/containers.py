"""The control groups of a container, and the process in it that waits for a forked box server."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import NamedTuple

# The command of the container makes a named pipe there and reads the exit code from it. The name ends in its id.
_FOLDER, _END = "/tmp", ".codebox-end-"
_LOG = "/proc/1/fd/1"
_LOOK_SECONDS = 0.002


class Holder(NamedTuple):
    """The process of a box that waits for its server, and the pipe for the exit code of that."""

    pipe: int
    pid: int


def groups_of(pid: int, container: str) -> list[str]:
    """Return the files by which a process joins the control groups of a container whose first process has this id.

    Raises ProcessLookupError when it is not the process of that container.
    """
    if not container:
        raise ValueError("no container is named")
    with open("/proc/self/mountinfo", encoding="utf8") as file:
        mounts = [line for line in file if " - cgroup" in line]
    paths = []
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            # On a host with both versions of control groups, a container may have none in version 2.
            if container in path:
                paths.append(f"{_folder(mounts, controllers, path)}/cgroup.procs")
    if not paths:
        raise ProcessLookupError("the first process of the container has ended")
    return paths


def _folder(mounts: list[str], controllers: str, path: str) -> str:
    """Return the folder of a control group: `controllers` are those of version 1, and empty for version 2."""
    for line in mounts:
        mount, _, source = line.partition(" - ")
        root, point = mount.split()[3:5]
        kind, _, options = source.split()[:3]
        matches = kind == "cgroup2" if not controllers else set(controllers.split(",")) <= set(options.split(","))
        if matches and path.startswith(root):
            return point + "/" + path[len(root) :].lstrip("/")
    raise FileNotFoundError(f"the control groups {controllers or 'of version 2'} are not mounted")


def attach(require_gateway: Callable[[], None]) -> Holder:
    """Send the output of this process to the log of the container. `require_gateway` raises when the gateway has gone.

    The container waits as the user of the box, so this must be that user too: it can open no more than code of the box.
    """
    while (found := _open_pipe()) is None:
        # The alarm of this process ends the wait.
        time.sleep(_LOOK_SECONDS)
        require_gateway()
    write_to(os.open(_LOG, os.O_WRONLY))
    return found


def write_to(log: int) -> None:
    """Let this process write its output to a descriptor, which is closed, and read nothing."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)


def _open_pipe() -> Holder | None:
    """Return None when the command of the container has not made the pipe yet, or does not read it yet."""
    for name in os.listdir(_FOLDER):
        if name.startswith(_END):
            path = f"{_FOLDER}/{name}"
            with contextlib.suppress(OSError):
                # Without waiting: the command may have ended.
                end = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                os.unlink(path)
                os.set_blocking(end, True)
                return Holder(end, int(name.removeprefix(_END)))
    return None
