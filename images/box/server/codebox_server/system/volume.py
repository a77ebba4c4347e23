"""The usage of a file system."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Less than this counts as full: a file system allocates in larger pieces and refuses what may not fit.
_ROOM_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Volume:
    """The used and total size of a file system, in bytes. `full`: a file cannot be created or written."""

    used_bytes: int
    limit_bytes: int
    full: bool

    def to_json(self) -> dict[str, int]:
        """`{usedBytes, limitBytes}`."""
        return {"usedBytes": self.used_bytes, "limitBytes": self.limit_bytes}


def volume(path: str) -> Volume | None:
    """Return the file system of `path`; None when it cannot be read."""
    try:
        found = os.statvfs(path)
    except OSError:
        # Code of the box removed the folder, so its file system is unknown.
        return None
    limit = found.f_blocks * found.f_frsize
    # A file system without a fixed number of inodes reports 0.
    no_inodes = found.f_files > 0 and found.f_favail == 0
    return Volume(
        used_bytes=limit - found.f_bfree * found.f_frsize,
        limit_bytes=limit,
        full=no_inodes or found.f_bavail * found.f_frsize < _ROOM_BYTES,
    )
