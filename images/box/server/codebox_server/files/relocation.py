"""Moves and copies: results are complete, and nothing is overwritten unless requested."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import uuid

from codebox_server.errors import BoxError
from codebox_server.files.removal import remove_tree

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


class Trash:
    """A temporary name on the same file system, next to the working folder; `clear` removes what was moved there."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, uuid.uuid4().hex)

    def take(self, path: str) -> None:
        """Move a file, link or folder here. Raises OSError."""
        try:
            os.rename(path, self.path)
        except PermissionError:
            # A folder that its owner may not write to cannot be moved to another parent.
            os.chmod(path, stat.S_IRWXU)
            os.rename(path, self.path)

    def clear(self) -> None:
        """Remove what was moved here. Blocks, so it belongs in a thread."""
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.lstat(self.path).st_mode):
                remove_tree(self.path)
            else:
                os.unlink(self.path)


def check_source(source: str, target: str) -> os.stat_result:
    """Return the status of `source`. Raises when it does not exist or `target` lies inside it."""
    try:
        status = os.lstat(source)
    except (FileNotFoundError, NotADirectoryError):
        raise BoxError("not_found", "no such file or folder", "/from") from None
    if target.startswith(source + "/"):
        raise BoxError("invalid_request", "a folder cannot be put into itself", "/to")
    return status


def put_in_place(source: str, target: str, overwrite: bool, trash: Trash, pointer: str) -> None:
    """Rename `source` to `target`, creating its parents. Without `overwrite`, raises conflict when `target` exists."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if overwrite:
            _replace(source, target, trash)
        else:
            rename_new(source, target)
    except (FileExistsError, NotADirectoryError):
        raise BoxError("conflict", "the path, or a part of it, is taken", pointer) from None


def _replace(source: str, target: str, trash: Trash) -> None:
    try:
        os.rename(source, target)
    except OSError as error:
        # A folder can replace only an empty folder.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        if not os.path.lexists(target):
            raise
        _swap(source, target, trash)


def _swap(source: str, target: str, trash: Trash) -> None:
    os.rename(target, trash.path)
    try:
        os.rename(source, target)
    except OSError:
        os.rename(trash.path, target)
        raise


def rename_new(source: str, target: str) -> None:
    """Rename, or raise FileExistsError when `target` exists, atomically where the system supports it."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number), source)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)
