"""The files that a run created, changed or removed: the difference of two scans of the working folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from codebox_server.bounds import PATH_BYTES, SCAN_DEPTH, SCAN_ENTRIES, SCAN_NAMES

_LEFT_OUT = frozenset({"__pycache__", ".ipynb_checkpoints", "node_modules"})

Mark = tuple[int, int, int]


@dataclass
class Scan:
    """Size, mtime_ns and inode of each file by its path relative to the root; folders are not included."""

    marks: dict[str, Mark] = field(default_factory=dict)
    complete: bool = True


def scan(root: str) -> Scan:
    """Examine every file below `root` up to the limit, without following links."""
    result = Scan()
    pending = [(root, "", 0)]
    seen = 0
    while pending:
        folder, prefix, depth = pending.pop()
        try:
            iterator = os.scandir(folder)
        except OSError:
            # A folder that vanished or cannot be read is not part of the scan.
            continue
        with iterator:
            for entry in iterator:
                seen += 1
                if seen > SCAN_ENTRIES:
                    result.complete = False
                    return result
                _visit(entry, prefix, depth, pending, result)
    return result


def _visit(entry: os.DirEntry[str], prefix: str, depth: int, pending: list[tuple[str, str, int]], result: Scan) -> None:
    path = prefix + entry.name
    try:
        if entry.is_dir(follow_symlinks=False):
            if entry.name in _LEFT_OUT:
                return
            if depth >= SCAN_DEPTH:
                result.complete = False
                return
            pending.append((entry.path, path + "/", depth + 1))
            return
        stat = entry.stat(follow_symlinks=False)
    except OSError:
        # It was removed after the listing.
        return
    result.marks[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)


def difference(before: Scan, after: Scan) -> dict[str, Any]:
    """Return the `files` of a `done` event: sorted paths relative to the working folder, as valid UTF-8."""
    old, new = before.marks, after.marks
    files: dict[str, Any] = {
        "created": _names(path for path in new if path not in old),
        "modified": _names(path for path, mark in new.items() if path in old and old[path] != mark),
        "deleted": _names(path for path in old if path not in new),
    }
    if not (before.complete and after.complete):
        files["complete"] = False
        # Files beyond the limit are unknown, so absence proves nothing.
        if not after.complete:
            files["deleted"] = []
        if not before.complete:
            files["created"] = []
    _bound(files)
    return files


def _bound(files: dict[str, Any]) -> None:
    room = SCAN_NAMES
    for kind in ("created", "modified", "deleted"):
        paths = [path for path in files[kind] if len(path) <= PATH_BYTES][:room]
        room -= len(paths)
        if len(paths) < len(files[kind]):
            files[kind], files["complete"] = paths, False


def _names(paths: Any) -> list[str]:
    return sorted(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in paths)
