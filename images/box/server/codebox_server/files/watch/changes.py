"""The numbered list of changes of a box, of which the newest are kept. Readers hold a position in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

from codebox_server.bounds import PING_SECONDS, READ_BATCH_BYTES, WATCH_BYTES, WATCH_CHANGES
from codebox_server.runs.journal import encode


class Change(NamedTuple):
    """`kind` is create, write, remove, rename or reset; `source` is where a rename came from."""

    kind: str
    path: str
    source: str | None = None
    fields: dict[str, Any] | None = None


class _Line(NamedTuple):
    change: Change
    text: bytes


class Changes:
    """Versions count from 1 without gaps; version 0 is the state before the first change."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._bytes = 0
        self._forgotten = 0
        self._news = asyncio.Event()

    @property
    def version(self) -> int:
        """The number of the newest change."""
        return self._forgotten + len(self._lines)

    def knows(self, version: int) -> bool:
        """Whether all changes after this version are still known."""
        return self._forgotten <= version <= self.version

    def add(self, changes: Iterable[Change]) -> None:
        """Number and publish changes; the oldest are dropped when there are too many."""
        for change in changes:
            event = {"version": self.version + 1, "type": change.kind}
            if change.kind != "reset":
                event["path"] = change.path
            if change.source is not None:
                event["from"] = change.source
            text = encode({**event, **(change.fields or {})})
            self._lines.append(_Line(change, text))
            self._bytes += len(text)
            if len(self._lines) > WATCH_CHANGES or self._bytes > WATCH_BYTES:
                self._forget()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def read(self, after: int, path: str, recursive: bool) -> AsyncIterator[bytes]:
        """Yield lines for changes below `path` after a version, live; a blank line after 10 s without any.

        A reader that falls behind the changes that are kept gets a `reset` and then the end.
        """
        position = after
        while True:
            if position < self._forgotten:
                yield encode({"version": self.version, "type": "reset", "reason": "slow"})
                return
            if position < self.version:
                position, batch = self._batch(position, path, recursive)
                if batch:
                    yield batch
                continue
            news = self._news
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await news.wait()
            except TimeoutError:
                yield b"\n"

    def known(self, after: int, path: str, recursive: bool) -> bytes:
        """Return the lines for changes below `path` after a version that is still known."""
        lines: list[bytes] = []
        while after < self.version:
            after, batch = self._batch(after, path, recursive)
            lines.append(batch)
        return b"".join(lines)

    def _batch(self, position: int, path: str, recursive: bool) -> tuple[int, bytes]:
        batch: list[bytes] = []
        size = 0
        while position < self.version and size < READ_BATCH_BYTES:
            change, text = self._lines[position - self._forgotten]
            position += 1
            if change.kind == "reset" or any(
                _is_below(name, path, recursive) for name in (change.path, change.source) if name is not None
            ):
                batch.append(text)
                size += len(text)
        return position, b"".join(batch)

    def _forget(self) -> None:
        # Half of them at once, so that this happens rarely.
        count = max(1, len(self._lines) // 2)
        self._bytes -= sum(len(line.text) for line in self._lines[:count])
        self._forgotten += count
        del self._lines[:count]


def _is_below(name: str, path: str, recursive: bool) -> bool:
    if name == path:
        return True
    prefix = path + "/" if path else ""
    return name.startswith(prefix) and (recursive or "/" not in name[len(prefix) :])
