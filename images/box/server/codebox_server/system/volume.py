"""How full a file system is."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Less than this is no room: a file system puts bytes down in larger pieces and refuses what it may have no place for.
_ROOM_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Volume:
    """What is used of a file system and how much it holds, in bytes. `full`: a file cannot be made or written."""

    used_bytes: int
    limit_bytes: int
    full: bool

    def to_json(self) -> dict[str, int]:
        """`{usedBytes, limitBytes}`."""
        return {"usedBytes": self.used_bytes, "limitBytes": self.limit_bytes}


def volume(path: str) -> Volume | None:
    """The file system that holds `path`; None when it cannot be asked."""
    try:
        found = os.statvfs(path)
    except OSError:
        # The folder was removed by code of the box: nothing can be said about where it was.
        return None
    limit = found.f_blocks * found.f_frsize
    # A file system without a fixed number of inodes says 0.
    no_inodes = found.f_files > 0 and found.f_favail == 0
    return Volume(
        used_bytes=limit - found.f_bfree * found.f_frsize,
        limit_bytes=limit,
        full=no_inodes or found.f_bavail * found.f_frsize < _ROOM_BYTES,
    )
