"""Removes a folder of any depth and with any modes, with a bounded number of descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import uuid

from codebox_server.bounds import JOB_SECONDS

_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Folders below this many levels are moved up to the first one, where they are no longer deep.
_LEVELS = 64


def remove_tree(path: str) -> None:
    """Remove a folder with its contents; links are not followed. Blocks, so it belongs in a thread.

    Raises OSError, ENOTEMPTY when code keeps creating files there for `JOB_SECONDS`.
    """
    deadline = time.monotonic() + JOB_SECONDS
    top = _open(path, None)
    try:
        while _empty(top, top, _LEVELS) and time.monotonic() < deadline:
            pass
    finally:
        os.close(top)
    os.rmdir(path)


def remove_older(path: str, before: float) -> None:
    """Remove what is in a folder and has not changed since `before`, in seconds since 1970; no link is followed.

    Blocks, so it belongs in a thread. Raises OSError.
    """
    top = _open(path, None)
    try:
        with os.scandir(top) as entries:
            for entry in entries:
                # Another box of the volume may remove it too.
                with contextlib.suppress(FileNotFoundError):
                    # Not the time of the contents, which a copy takes from its source.
                    if entry.stat(follow_symlinks=False).st_ctime >= before:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        _remove(entry.name, top, top, _LEVELS)
                    else:
                        os.unlink(entry.name, dir_fd=top)
    finally:
        os.close(top)


def _empty(folder: int, top: int, levels: int) -> bool:
    """Remove the contents of an open folder, one by one. Return whether something remains to be removed."""
    left = False
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                elif levels == 0:
                    os.rename(entry.name, uuid.uuid4().hex, src_dir_fd=folder, dst_dir_fd=top)
                    left = True
                else:
                    left = _remove(entry.name, folder, top, levels - 1) or left
    return left


def _remove(name: str, folder: int, top: int, levels: int) -> bool:
    inner = _open(name, folder)
    try:
        left = _empty(inner, top, levels)
    finally:
        os.close(inner)
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        # Code of the box has created something there, or the listing missed a concurrent change.
        if error.errno != errno.ENOTEMPTY:
            raise
        return True
    return left


def _open(name: str, folder: int | None) -> int:
    """Open a folder so that its entries can be removed: its mode is changed if necessary."""
    with contextlib.suppress(PermissionError):
        fd = os.open(name, _OPEN_FLAGS, dir_fd=folder)
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & stat.S_IRWXU == stat.S_IRWXU:
            return fd
        os.close(fd)
    # If a link replaces it meanwhile, that leads to something of the same box.
    os.chmod(name, stat.S_IRWXU, dir_fd=folder)
    return os.open(name, _OPEN_FLAGS, dir_fd=folder)
