"""A file or folder as the API shows it."""

from __future__ import annotations

import datetime
import os
import stat
from typing import Any


def kind(mode: int) -> str:
    """file, directory, symlink or other."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def etag(status: os.stat_result) -> str:
    """A strong entity tag: another content has another inode, size or time in nanoseconds."""
    return f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'


def entry(path: str, status: os.stat_result) -> dict[str, Any]:
    """`{name,path,type,sizeBytes,modifiedAt}`; `path` is relative to the working folder."""
    modified = datetime.datetime.fromtimestamp(max(0, status.st_mtime), datetime.UTC)
    return {
        "name": os.path.basename(path),
        "path": path,
        "type": kind(status.st_mode),
        "sizeBytes": status.st_size,
        "modifiedAt": modified.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
