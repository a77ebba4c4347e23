"""Moves a forked process into the sandbox that bubblewrap has made, and takes away what a box must not have."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple, NotRequired, TypedDict

from codebox_server.parent.containers import Holder, groups_of, write_to

_NAMESPACES = {
    "mnt": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "uts": 0x0400_0000,
    "ipc": 0x0800_0000,
    "pid": 0x2000_0000,
    "net": 0x4000_0000,
}
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION = 0x2008_0522
_OOM_SCORE = "500"
# The process that bubblewrap has started, which waits for the end of the box server.
_HOLDER = 2
_HOLDER_LOG, _HOLDER_PIPE = 1, 6

_libc = ctypes.CDLL(None, use_errno=True)


class Entry(TypedDict):
    """What a fork needs to enter a box, whose first process is `init`."""

    init: int
    uid: int
    # By the names of the kernel, such as NOFILE.
    limits: dict[str, int]
    # When the first process started, as in /proc/<pid>/stat, and the files to join its control groups by.
    start: NotRequired[str]
    groups: NotRequired[list[str]]
    # Instead of these, the id of the container that it is the first process of.
    container: NotRequired[str]


class Init(NamedTuple):
    """The first process of a box: its id, and a descriptor of it, which names it in all pid namespaces."""

    pid: int
    descriptor: int


@contextlib.contextmanager
def first_process(pid: int) -> Iterator[Init]:
    """Open a process by its id. Raises ProcessLookupError when there is none."""
    descriptor = os.pidfd_open(pid)
    try:
        yield Init(pid, descriptor)
    finally:
        os.close(descriptor)


def fork_into(init: Init) -> int:
    """Fork a process in the pid namespace of a box, and in nothing else of it. Returns its id, and 0 in it.

    Nothing can enter such a namespace but by a fork, so this saves one. Whether it is the right box is left to `join`.
    """
    if _namespace(init.pid, "pid") == _namespace("self", "pid"):
        raise PermissionError("the process has no pid namespace of its own")
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        _check(_libc.setns(init.descriptor, _NAMESPACES["pid"]), "setns")
        forked = None
        try:
            forked = os.fork()
        finally:
            if forked != 0 and _libc.setns(own, _NAMESPACES["pid"]) != 0:
                raise SystemExit("the parent cannot leave the namespace of a box")
    finally:
        os.close(own)
    return forked


def join(init: Init, entry: Entry) -> None:
    """Enter the control groups and the other namespaces of a box."""
    pid = init.pid
    # After the descriptor was opened: this is the process that it names.
    if "container" in entry:
        if _status_of(str(pid))["NSpid"].split()[-1] != "1":
            raise ProcessLookupError("the process is not the first one of a container")
        groups = groups_of(pid, entry["container"])
    elif _start_of(pid) == entry["start"]:
        groups = entry["groups"]
    else:
        raise ProcessLookupError("the first process of the box has ended")
    for path in groups:
        _write(path, "0")
    _write("/proc/self/oom_score_adj", _OOM_SCORE)
    for name, limit in entry["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    if _namespace(pid, "pid") != _namespace("self", "pid"):
        raise ProcessLookupError("the process was another one when this one was forked")
    others = {name: flag for name, flag in _NAMESPACES.items() if name != "pid"}
    shared = {name for name in others if _namespace(pid, name) == _namespace("self", name)}
    # With version 1 of control groups, Docker's containers are in the namespace of the host.
    if "container" in entry:
        shared.discard("cgroup")
    for name in shared:
        raise PermissionError(f"the process has no {name} namespace of its own")
    root = os.stat(f"/proc/{pid}/root")
    _check(_libc.setns(init.descriptor, sum(others.values())), "setns")
    os.close(init.descriptor)
    if not os.path.samestat(os.stat("/"), root):
        raise PermissionError("the box has another root folder")


def attach() -> Holder:
    """Send the output of this process to the log of the box.

    Raises PermissionError when the second process of the box is not the one that waits for a forked server: code in the
    box may have chosen what its descriptors lead to.
    """
    status = _status_of(str(_HOLDER))
    # The owner of its folder in /proc says less: a process of any user can make that root.
    if status["PPid"] != "1" or status["Uid"].split() != ["0"] * 4:
        raise PermissionError("the box has no process that waits for a server")
    log = _open_of_holder(_HOLDER_LOG, stat.S_IFREG, os.O_WRONLY | os.O_APPEND)
    end = _open_of_holder(_HOLDER_PIPE, stat.S_IFIFO, os.O_WRONLY)
    write_to(log)
    return Holder(end, _HOLDER)


def _namespace(process: int | str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")


def _open_of_holder(descriptor: int, kind: int, flags: int) -> int:
    path = f"/proc/{_HOLDER}/fd/{descriptor}"
    target = os.stat(path)
    if stat.S_IFMT(target.st_mode) != kind or target.st_uid != 0:
        raise PermissionError(f"descriptor {descriptor} of the holder leads to something else")
    return os.open(path, flags)


def drop(uid: int, program: bytes) -> None:
    """Become the user of the box for good, without capabilities and with its filter of system calls."""
    # Any process may set the login uid of audit records, but only once: code in the box must not.
    with contextlib.suppress(OSError):
        # The host may not audit.
        _write("/proc/self/loginuid", str(uid))
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    header, none = struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)
    _check(_libc.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(none)), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    instructions = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HP", len(program) // 8, ctypes.addressof(instructions))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(filter_), 0, 0), "seccomp")
    _verify(uid)
    # From here on this is an ordinary process of the box, which its user may examine like any other.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")


def _verify(uid: int) -> None:
    status = _status_of("self")
    wanted = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)
    wanted |= {"Uid": "\t".join([str(uid)] * 4), "Gid": "\t".join([str(uid)] * 4), "Threads": "1"}
    wanted |= {"NoNewPrivs": "1", "Seccomp": "2", "Groups": ""}
    for name, value in wanted.items():
        if status[name].strip() != value:
            raise PermissionError(f"{name} of the box server is {status[name]}")


def _status_of(process: str) -> dict[str, str]:
    with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def _start_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
