"""Everything below a folder, always in the same order."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Entry(NamedTuple):
    """A file, folder or link: its path below the folder, its whole path, and its lstat result."""

    name: str
    path: str
    status: os.stat_result


def walk(root: str, after: Sequence[str] = ()) -> Iterator[Entry]:
    """Yield everything below a folder, each folder before its contents, sorted by name. Pipes, sockets and devices are
    left out, and so is whatever vanishes meanwhile. `after`, names of folders and finally an entry, is where the
    walk begins: these themselves are yielded, and nothing before them.
    """
    pending = [("", iter(_names(root, after)))]
    while pending:
        prefix, names = pending[-1]
        name = next(names, None)
        if name is None:
            pending.pop()
            continue
        path = os.path.join(root, prefix + name)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield Entry(prefix + name, path, status)
            depth = len(pending)
            is_on_the_way = (prefix + name).split("/") == list(after[:depth])
            pending.append((prefix + name + "/", iter(_names(path, after[depth:] if is_on_the_way else ()))))
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            yield Entry(prefix + name, path, status)


def _names(folder: str, after: Sequence[str]) -> list[str]:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            names = sorted(os.listdir(fd))
        finally:
            os.close(fd)
    except OSError:
        # It has vanished, a link has replaced it, or its owner does not let anybody read it.
        return []
    return names[bisect_left(names, after[0]) :] if after else names
