"""Prevents code of a box from creating Unix sockets and named pipes in its volumes.

Boxes that share a volume could leave memory to each other: open files over a socket in it, the content of pipes in a
named one. What a box that has ended has left would go on to use memory and disk space that no limit counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

_VOLUMES = "/volumes"
# The numbers of these calls are the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_MAKE_SOCKET, _MAKE_PIPE, _RENAME = 1 << 9, 1 << 10, 1 << 13
_ALL = _MAKE_SOCKET | _MAKE_PIPE | _RENAME
# Earlier versions of Landlock refuse to move any file to another folder.
_LEAST_VERSION = 2
_PR_SET_NO_NEW_PRIVS = 38

_confined = False

_libc = ctypes.CDLL(None, use_errno=True)


def confine(root: str = "/", volumes: str = _VOLUMES) -> bool:
    """Confine this process and its children; return whether they are.

    They are not where boxes have no folder of volumes, and on kernels without Landlock: gVisor, which shares neither
    sockets nor pipes between boxes, and Linux before 5.19.
    """
    global _confined
    if not os.path.isdir(volumes) or _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG) < _LEAST_VERSION:
        return False
    handled = struct.pack("Q", _ALL)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, handled, len(handled), 0), "create a ruleset")
    try:
        _allow(ruleset, root, _RENAME)
        for entry in os.scandir(root):
            if entry.path != volumes and entry.is_dir(follow_symlinks=False):
                _allow(ruleset, entry.path, _ALL)
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "restrict this process")
    finally:
        os.close(ruleset)
    _confined = True
    return True


def is_confined() -> bool:
    """Return whether this process is confined."""
    return _confined


def _allow(ruleset: int, path: str, access: int) -> None:
    # A folder that this user may not enter needs no rule.
    with contextlib.suppress(PermissionError):
        folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", access, folder)
            _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), f"allow {path}")
        finally:
            os.close(folder)


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result
