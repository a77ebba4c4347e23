"""Moves a finished folder to a free path, or merges it into an existing folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from codebox_server.errors import BoxError


def merge(source: str, target: str, overwrite: bool) -> None:
    """Move a folder to `target`, or merge its contents into the folder `target`. `source` may remain, empty.

    Raises conflict, without any change, when a path is taken: by a file unless `overwrite`, or by another kind.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.lexists(target):
        os.rename(source, target)
        return
    if not os.path.isdir(target):
        raise BoxError("conflict", "there is a file at this path", "/to")
    moves = list(_moves(source, target, overwrite))
    for name in moves:
        os.rename(os.path.join(source, name), os.path.join(target, name))


def _moves(source: str, target: str, overwrite: bool) -> Iterator[str]:
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(os.path.join(source, folder)):
            name = os.path.join(folder, entry.name)
            there = os.path.join(target, name)
            if not os.path.lexists(there):
                yield name
            elif entry.is_dir(follow_symlinks=False) and os.path.isdir(there) and not os.path.islink(there):
                pending.append(name)
            elif not overwrite or entry.is_dir(follow_symlinks=False) or _is_folder(there):
                raise BoxError("conflict", f"the path {name[:200]!a} is taken", "/to")
            else:
                yield name


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
