"""A file or folder as the API represents it."""

from __future__ import annotations

import datetime
import os
import stat
from typing import Any
from urllib.parse import quote

from codebox_server.files.metadata import read_metadata


def kind(mode: int) -> str:
    """Return file, directory, symlink or other."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def etag(status: os.stat_result) -> str:
    """Return a strong entity tag: different content has a different inode, size or time in nanoseconds."""
    return f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'


def path_fields(path: str) -> dict[str, str]:
    """Return `{path}`. Where that is not UTF-8, it has U+FFFD, and `encodedPath` is the form for requests."""
    raw = os.fsencode(path)
    shown = raw.decode("utf-8", "replace")
    return {"path": shown} if shown == path else {"path": shown, "encodedPath": quote(raw)}


def entry(path: str, status: os.stat_result, place: str) -> dict[str, Any]:
    """Return `{name,path,encodedPath?,type,sizeBytes,modifiedAt,mode,target?,metadata?}`.

    `path` is relative to the working folder or absolute, `place` always absolute; `target` is where a link leads.
    """
    modified = datetime.datetime.fromtimestamp(max(0, status.st_mtime), datetime.UTC)
    names = path_fields(path)
    shown: dict[str, Any] = {
        "name": os.path.basename(names["path"]),
        **names,
        "type": kind(status.st_mode),
        "sizeBytes": status.st_size,
        "modifiedAt": modified.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "mode": stat.S_IMODE(status.st_mode),
    }
    if stat.S_ISLNK(status.st_mode):
        shown["target"] = path_fields(os.path.realpath(place))["path"]
    metadata = read_metadata(place)
    if metadata:
        shown["metadata"] = metadata
    return shown
