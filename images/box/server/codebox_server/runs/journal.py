"""The numbered event list of one run, and the store that keeps the journals of the box within their limit."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any, Protocol

from codebox_server.bounds import JOURNAL_BYTES, JOURNAL_RUNS, LINGER_SECONDS, PING_SECONDS, READ_BATCH_BYTES

# The overhead of one stored event: the bytes object and its place in the list.
_LINE_OVERHEAD = 48

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(event: dict[str, Any]) -> bytes:
    """Encode one line of UTF-8 JSON. Lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    text = _encoder.encode(event)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() + b"\n"


class Journal:
    """An append-only list of encoded events. Readers hold a position in it, so a slow one costs no memory."""

    def __init__(self, store: Journals) -> None:
        self._store = store
        self._lines: list[bytes] = []
        self._waiting: set[asyncio.Future[bool]] = set()
        self._lingering: set[asyncio.Future[bool]] = set()
        self.size = 0
        self.ended = False

    @property
    def last_seq(self) -> int:
        """The number of the newest event, 0 before the first."""
        return len(self._lines)

    def lines(self) -> list[bytes]:
        """Return the encoded events so far."""
        return self._lines.copy()

    def append(self, kind: str, fields: dict[str, Any]) -> int:
        """Number, store and publish one event; return its encoded size in bytes. `done` ends the journal.

        Once the store is sealed, nothing is kept or published.
        """
        if self._store.sealed:
            return 0
        line = encode({"seq": len(self._lines) + 1, "type": kind, **fields})
        self._lines.append(line)
        cost = len(line) + _LINE_OVERHEAD
        self.size += cost
        if kind == "done":
            self.ended = True
        self._store.grew(cost)
        _wake(self._waiting)
        if self.ended:
            _wake(self._lingering)
        return len(line)

    async def read(self, after: int) -> AsyncIterator[bytes]:
        """Yield batches of whole lines after event `after`, live until `done`; a blank line after 10 s without any.

        An event is held for a few milliseconds, because events that follow soon are then written with it: a short
        run takes one write instead of four, and each one wakes the reader.
        """
        position = after
        while True:
            while position < len(self._lines):
                batch, position = self._batch(position)
                yield batch
            if self.ended:
                return
            if not await self._wait(self._waiting, PING_SECONDS):
                yield b"\n"
            elif not self.ended:
                await self._wait(self._lingering, LINGER_SECONDS)

    def _batch(self, position: int) -> tuple[bytes, int]:
        lines = self._lines
        end, size = position, 0
        while end < len(lines) and (size == 0 or size + len(lines[end]) <= READ_BATCH_BYTES):
            size += len(lines[end])
            end += 1
        batch = lines[position] if end == position + 1 else b"".join(lines[position:end])
        return batch, end

    async def _wait(self, waiters: set[asyncio.Future[bool]], seconds: float) -> bool:
        """Return True when woken, False when the time has passed."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _resolve, waiter, False)
        waiters.add(waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            waiters.discard(waiter)


def _resolve(waiter: asyncio.Future[bool], woken: bool) -> None:
    if not waiter.done():
        waiter.set_result(woken)


def _wake(waiters: set[asyncio.Future[bool]]) -> None:
    for waiter in waiters:
        _resolve(waiter, True)


class Run(Protocol):
    """An execution or a command: both have a journal."""

    journal: Journal


class Journals:
    """All runs by id, oldest first. Their journals share one limit on memory."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self.size = 0
        self.sealed = False

    def seal(self) -> None:
        """Stop recording and publishing events, so that later readers get all that earlier ones got. Idempotent."""
        self.sealed = True

    def create(self) -> Journal:
        """Create an empty journal that counts towards the limit."""
        return Journal(self)

    def add(self, key: str, run: Run) -> None:
        """Keep a run under its key."""
        self._runs[key] = run

    def get(self, key: str) -> Run | None:
        """Return the run of that key, None when unknown or dropped."""
        return self._runs.get(key)

    def values(self) -> list[Run]:
        """Return all known runs, oldest first."""
        return list(self._runs.values())

    def grew(self, cost: int) -> None:
        """Count an event and drop the oldest finished runs when the limit is exceeded."""
        self.size += cost
        if self.size > JOURNAL_BYTES or len(self._runs) > JOURNAL_RUNS:
            self._forget()

    @property
    def full(self) -> bool:
        """Whether the limit is exceeded although every finished run has been dropped."""
        return self.size > JOURNAL_BYTES

    def _forget(self) -> None:
        running: list[tuple[str, Run]] = []
        # From the oldest on, so that this takes as many steps as there are runs to drop or still running.
        while self._runs and (self.size > JOURNAL_BYTES or len(self._runs) + len(running) > JOURNAL_RUNS):
            key, run = self._runs.popitem(last=False)
            if run.journal.ended:
                self.size -= run.journal.size
            else:
                running.append((key, run))
        for key, run in reversed(running):
            self._runs[key] = run
            self._runs.move_to_end(key, last=False)
