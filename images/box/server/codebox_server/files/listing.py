"""One page of a folder, or of all below it, sorted by name, in memory that does not grow with the folder."""

from __future__ import annotations

import base64
import binascii
import heapq
import os
from collections.abc import Iterator
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.files.entry import entry


def list_folder(folder: str, path: str, limit: int, cursor: str | None, depth: int = 1) -> dict[str, Any]:
    """`{items, nextCursor}`: up to `limit` entries after the cursor, each folder before what is in it.

    `depth` is how many levels are listed. Links are not followed. Blocks, so it belongs in a thread.
    """
    page = _Page(limit + 1)
    page.add(folder, path + "/" if path else "", depth, _decode(cursor).split("/") if cursor else [])
    more = len(page.items) > limit
    items = page.items[:limit]
    last = page.paths[limit - 1] if more else ""
    return {"items": items, "nextCursor": _encode(last[len(path) + 1 if path else 0 :]) if more else None}


class _Page:
    """Collects entries until there are enough."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.items: list[dict[str, Any]] = []
        # As the system knows them.
        self.paths: list[str] = []

    def add(self, folder: str, prefix: str, depth: int, after: list[str]) -> None:
        """The entries of a folder after `after`, the names of a path in it, of which the last was listed already."""
        first, rest = (after[0], after[1:]) if after else ("", [])
        for name in self._names_from(folder, first):
            inside = os.path.join(folder, name)
            item = _look(inside, prefix + name)
            if item is None:
                continue
            if name != first:
                self.items.append(item)
                self.paths.append(prefix + name)
            if depth > 1 and item["type"] == "directory":
                self.add(inside, prefix + name + "/", depth - 1, rest if name == first else [])

    def _names_from(self, folder: str, first: str) -> Iterator[str]:
        """The names from `first` on, sorted, while there is room for them."""
        found = _names(folder)
        wanted = heapq.nsmallest(self._room + 1, (name for name in found if name >= first))
        while wanted:
            for name in wanted:
                if len(self.items) >= self._room:
                    return
                yield name
            # All of these have been used up, by folders that were only gone through or by names that have vanished.
            last = wanted[-1]
            wanted = heapq.nsmallest(self._room + 1, (name for name in found if name > last))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # Removed between the listing of its parent and the look, or closed to everybody by its owner.
        return []


def _look(path: str, shown: str) -> dict[str, Any] | None:
    try:
        return entry(shown, os.lstat(path))
    except OSError:
        # Removed between the listing and the look.
        return None


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(name)).decode().rstrip("=")


def _decode(cursor: str) -> str:
    try:
        return os.fsdecode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise BoxError("invalid_request", "not a cursor of this listing", "/query/cursor") from None
