"""One page of a folder, or of everything below it, sorted by name, in memory that does not grow with the folder."""

from __future__ import annotations

import base64
import binascii
import heapq
import os
from collections.abc import Iterator
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.files.entry import entry
from codebox_server.files.paths import prefix_of


def list_folder(folder: str, path: str, limit: int, cursor: str | None, depth: int = 1) -> dict[str, Any]:
    """Return `{items, nextCursor}`: up to `limit` entries after the cursor, each folder before its contents.

    `depth` is the number of levels to list. Links are not followed. Blocks, so it belongs in a thread.
    """
    page = _Page(limit + 1)
    prefix = prefix_of(path)
    page.add(folder, prefix, depth, _decode(cursor).split("/") if cursor else [])
    more = len(page.items) > limit
    items = page.items[:limit]
    last = page.paths[limit - 1] if more else ""
    return {"items": items, "nextCursor": _encode(last[len(prefix) :]) if more else None}


class _Page:
    """Collects entries until the page is full."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.items: list[dict[str, Any]] = []
        # Paths as the file system has them.
        self.paths: list[str] = []

    def add(self, folder: str, prefix: str, depth: int, after: list[str]) -> None:
        """Add the entries of a folder after `after`, the segments of a path in it, the last of which was listed
        already.
        """
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
        """Yield the sorted names from `first` on, while there is room for them."""
        found = _names(folder)
        wanted = heapq.nsmallest(self._room + 1, (name for name in found if name >= first))
        while wanted:
            for name in wanted:
                if len(self.items) >= self._room:
                    return
                yield name
            # All of these are used up, by folders on the way to the cursor or by names that have vanished.
            last = wanted[-1]
            wanted = heapq.nsmallest(self._room + 1, (name for name in found if name > last))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # It was removed after its parent was listed, or its owner lets nobody read it.
        return []


def _look(path: str, shown: str) -> dict[str, Any] | None:
    try:
        return entry(shown, os.lstat(path), path)
    except OSError:
        # It was removed after the listing.
        return None


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(name)).decode().rstrip("=")


def _decode(cursor: str) -> str:
    try:
        return os.fsdecode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise BoxError("invalid_request", "not a cursor of this listing", "/query/cursor") from None
