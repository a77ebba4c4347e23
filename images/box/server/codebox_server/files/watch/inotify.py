"""inotify through the C library: no package pairs moves and limits its watches."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_HEAD = struct.Struct("iIII")
_READ_BYTES = 256 * 1024

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
MOVED_FROM = 0x40
_MOVED_TO, _CREATE, _DELETE = 0x80, 0x100, 0x200
OVERFLOW, IGNORED = 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK = 0x1000000, 0x2000000, 0x4000000
_MASK = _MODIFY | _CLOSE_WRITE | MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK


class Notice(NamedTuple):
    """A notification about `name` in the folder of `watch`."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify queue. Its descriptor `fd` is readable when there are notifications."""

    def __init__(self) -> None:
        """Raises OSError when inotify is not available."""
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, folder: str) -> int:
        """Watch a folder; the same folder always has the same number. Raises OSError."""
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(folder), _MASK))

    def remove(self, watch: int) -> None:
        """Stop watching; does nothing when the watch has ended."""
        _libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> list[Notice]:
        """Return the pending notifications, up to some thousands; the rest stays queued."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        notices = []
        offset = 0
        while offset < len(data):
            watch, mask, _cookie, size = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size
            notices.append(Notice(watch, mask, os.fsdecode(data[offset : offset + size].rstrip(b"\0"))))
            offset += size
        return notices

    def close(self) -> None:
        """Close the queue."""
        os.close(self.fd)


def open_inotify(trial_folder: str) -> Inotify | None:
    """Return a queue; None where inotify does not work: some sandboxes accept the calls but send nothing."""
    try:
        queue = Inotify()
    except OSError:
        return None
    trial = os.path.join(trial_folder, f".watch-{os.getpid()}")
    try:
        watch = queue.add(trial_folder)
        os.mkdir(trial)
        works = any(notice.name == os.path.basename(trial) for notice in queue.read())
        os.rmdir(trial)
        queue.remove(watch)
        queue.read()
    except OSError:
        works = False
    if works:
        return queue
    queue.close()
    return None


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
