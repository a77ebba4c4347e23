"""Mounts an ext4 device in the mount namespace of a running process, with the owner of its files mapped to a user.

No path is looked up in that namespace but the mount point, in a folder that only root can write. The mount is made
before that, so it has its options from the start, and it ends with the namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Iterator

_LIBC = ctypes.CDLL(None, use_errno=True)

# The numbers of these calls are the same on all architectures.
_MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 429, 430, 431, 432, 442
_CLOEXEC = 1
_SET_STRING, _CREATE = 1, 6
_READ_ONLY, _NOSUID, _NODEV, _IDMAP = 0x1, 0x2, 0x4, 0x0010_0000
_EMPTY_PATH, _MOVE_EMPTY_PATH = 0x1000, 0x4
_HERE = -100
_NEW_USER, _NEW_MOUNTS = 0x1000_0000, 0x0002_0000
_GRACE_SECONDS = 20


def mount(pid: int, start: str, device: str, target: str, owner: int, user: int, read_only: bool) -> None:
    """Mount `device` at `target` in the namespace of the process that is `pid` and began at `start`.

    Files of `owner` on the device belong to `user` there; other owners have no name, and nobody can write as them.
    """
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    # After the descriptor was opened: this is the namespace of that process.
    if _start_of(pid) != start:
        raise ProcessLookupError("the process has ended")
    mounted = _open_device(device, read_only)
    with _user_namespace(owner, user) as users:
        attributes = struct.pack("QQQQ", _IDMAP, 0, 0, users)
        _call(_MOUNT_SETATTR, mounted, b"", _EMPTY_PATH, ctypes.create_string_buffer(attributes, 32), 32)
    if _LIBC.setns(namespace, _NEW_MOUNTS) != 0:
        raise _error("setns")
    os.makedirs(target, exist_ok=True)
    _call(_MOVE_MOUNT, mounted, b"", _HERE, target.encode(), _MOVE_EMPTY_PATH)


def _open_device(device: str, read_only: bool) -> int:
    """Return a mount that is in no namespace yet. The file system itself is writable, as others may have mounted it."""
    system = _call(_FSOPEN, b"ext4", _CLOEXEC)
    _call(_FSCONFIG, system, _SET_STRING, b"source", device.encode(), 0)
    _call(_FSCONFIG, system, _CREATE, None, None, 0)
    return _call(_FSMOUNT, system, _CLOEXEC, _NOSUID | _NODEV | (_READ_ONLY if read_only else 0))


@contextlib.contextmanager
def _user_namespace(owner: int, user: int) -> Iterator[int]:
    """Yield a descriptor of a user namespace in which `owner` is `user` of this one."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_GRACE_SECONDS)
        if _LIBC.unshare(_NEW_USER) == 0:
            os.write(ready[1], b"1")
            os.close(go[1])
            os.read(go[0], 1)
        os._exit(0)
    os.close(ready[1])
    try:
        if os.read(ready[0], 1) != b"1":
            raise PermissionError("this host permits no user namespaces")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
                file.write(f"{owner} {user} 1")
        users = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
        try:
            yield users
        finally:
            os.close(users)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _start_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]


def _call(number: int, *arguments: object) -> int:
    result = _LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise _error(f"system call {number}")
    return int(result)


def _error(what: str) -> OSError:
    return OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    given = sys.argv[1:]
    mount(int(given[0]), given[1], given[2], given[3], int(given[4]), int(given[5]), given[6] == "read-only")
