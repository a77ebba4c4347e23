"""The output of one run on its way into the journal: coalesced, limited, with head and tail kept."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from codebox_server.bounds import (
    COALESCE_BYTES,
    COALESCE_SECONDS,
    ERROR_FIELD_BYTES,
    EVENT_BYTES,
    FLOOD_BYTES,
    FLOOD_EVENTS,
    JSON_LEVELS,
    JSON_VALUES,
    MIME_TYPES,
    REPLY_BYTES,
    REPORT_BYTES,
    RICH_BYTES,
    RICH_EVENTS,
    STREAM_BYTES,
    STREAM_EVENTS,
    TRACEBACK_BYTES,
)
from codebox_server.runs.journal import Journal, Journals

_TOO_LARGE = {"status": "error", "ename": "ValueError", "evalue": "the values are too large", "traceback": []}


def text_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def pieces(text: str) -> Iterator[str]:
    """Split a long text into parts of one event each."""
    if len(text) <= COALESCE_BYTES:
        yield text
        return
    for start in range(0, len(text), COALESCE_BYTES):
        yield text[start : start + COALESCE_BYTES]


def marked(origin: str | None) -> dict[str, str]:
    """Return the field of an event that belongs to an earlier execution."""
    return {} if origin is None else {"origin": origin}


class _Tail:
    """The last half of the streams: a ring of texts, with the rich events between them."""

    def __init__(self, most_bytes: int, most_events: int) -> None:
        self._most_bytes, self._most_events = most_bytes, most_events
        self.entries: deque[tuple[str, dict[str, Any], int]] = deque()
        self.kept: list[tuple[str, dict[str, Any], int]] = []
        self.size = 0
        self.streams = 0
        self.dropped_bytes = 0
        self.dropped_events = 0

    def add_text(self, name: str, text: str, size: int, mark: dict[str, str]) -> None:
        """Append a text and drop the oldest ones that no longer fit."""
        last = self.entries[-1] if self.entries else None
        fits = last is not None and last[0] == name and last[2] + size <= COALESCE_BYTES
        if last is not None and fits and last[1].get("origin") == mark.get("origin"):
            self.entries[-1] = (name, {"text": last[1]["text"] + text, **mark}, last[2] + size)
        else:
            self.entries.append((name, {"text": text, **mark}, size))
            self.streams += 1
        self.size += size
        while self.size > self._most_bytes or self.streams > self._most_events:
            entry = self.entries.popleft()
            if entry[0] in ("stdout", "stderr"):
                self.size -= entry[2]
                self.streams -= 1
                self.dropped_bytes += entry[2]
                self.dropped_events += 1
            else:
                self.kept.append(entry)

    def add_event(self, kind: str, fields: dict[str, Any]) -> None:
        """Append an event of another kind; the limit on rich output bounds its size."""
        self.entries.append((kind, fields, 0))


class Output:
    """Receives the output of one run and writes its events. `on_flood` is called once when it writes without end.

    Of longer streams, `stream_bytes` are kept: the first half and the last one.
    """

    def __init__(
        self, journal: Journal, store: Journals, on_flood: Callable[[], None], stream_bytes: int = STREAM_BYTES
    ) -> None:
        self._half_bytes = stream_bytes // 2
        self._half_events = STREAM_EVENTS * max(stream_bytes, STREAM_BYTES) // STREAM_BYTES // 2
        self._journal = journal
        self._store = store
        self._on_flood = on_flood
        self._loop = asyncio.get_running_loop()
        self._pending: list[str] = []
        # The stream, and the origin of its text.
        self._pending_name: tuple[str, str | None] = ("", None)
        self._pending_bytes = 0
        self._window: asyncio.TimerHandle | None = None
        self._head_bytes = self._head_events = 0
        self._rich_bytes = self._rich_events = self._clears = self._questions = 0
        self._total_bytes = self._total_events = 0
        self._dropped_bytes = self._dropped_events = 0
        self._tail: _Tail | None = None
        self._flooded = False

    def stream(self, name: str, text: str, origin: str | None = None) -> None:
        """Add text of `stdout` or `stderr`. The first text is sent at once, what follows shortly after as one event.

        `origin` is the earlier execution that it belongs to, if any.
        """
        if not text:
            return
        size = text_bytes(text)
        self._count(size)
        if self._window is None:
            self._emit(name, text, size, marked(origin))
            self._open_window()
            return
        if self._pending_name != (name, origin):
            self._flush()
            self._pending_name = (name, origin)
        self._pending.append(text)
        self._pending_bytes += size
        if self._pending_bytes >= COALESCE_BYTES:
            self._flush()

    def rich(self, kind: str, fields: dict[str, Any], size: int, dropped: int = 0) -> None:
        """Add a result or display with its `mime` bundle, `size` bytes on the wire. Too much becomes a placeholder.

        `dropped` means that it is a placeholder already, for so many bytes.
        """
        if not self._takes_rich(size):
            return
        if dropped:
            self._dropped_bytes += dropped
            self._dropped_events += 1
        mime: dict[str, Any] = fields["mime"]
        whole = mime
        if self._rich_bytes + size > RICH_BYTES:
            mime = _placeholder(mime)
        elif _is_excessive(mime):
            texts = {kind: value for kind, value in mime.items() if isinstance(value, str)}
            mime = texts if 0 < len(texts) <= MIME_TYPES else _placeholder(mime)
        if mime is whole:
            self._rich_bytes += size
        else:
            kept = sum(map(text_bytes, mime.values()))
            self._rich_bytes += kept
            self._dropped_bytes += max(0, size - kept)
            self._dropped_events += 1
            fields = {**fields, "mime": mime}
        if "metadata" in fields and (mime is not whole or _is_excessive({**mime, "metadata": fields["metadata"]})):
            fields = {name: value for name, value in fields.items() if name != "metadata"}
        self._event(kind, fields)

    def reply(self, expressions: dict[str, Any], payload: list[dict[str, Any]], size: int) -> None:
        """Add what a reply has for a Jupyter client, `size` bytes on the wire. If that is too much, the value of each
        expression becomes an error.
        """
        self._count(size)
        if size > REPLY_BYTES or self._store.full or _is_excessive({"expressions": expressions, "payload": payload}):
            expressions, payload = dict.fromkeys(expressions, _TOO_LARGE), []
        self._event("reply", {"expressions": expressions, "payload": payload})

    def report(self, kind: str, fields: dict[str, Any], size: int) -> None:
        """Add an event that a process of the box server has written, `size` bytes on the wire, without its `outputs` if
        they are too much.
        """
        if not self._takes_rich(size):
            return
        if self._rich_bytes + size > RICH_BYTES or _is_excessive(fields):
            fields = {**fields, "outputs": None}
            size = len(json.dumps(fields))
            if size > REPORT_BYTES:
                return
        self._rich_bytes += size
        self._event(kind, fields)

    def error(self, name: str, value: str, traceback: list[str], hint: dict[str, Any] | None = None) -> None:
        """Add an error with its fields cut to their limits."""
        fields = {
            "name": _cut(name, ERROR_FIELD_BYTES),
            "value": _cut(value, ERROR_FIELD_BYTES),
            "traceback": _cut_lines(traceback, TRACEBACK_BYTES),
            **({} if hint is None else {"hint": hint}),
        }
        self.rich("error", {**fields, "mime": {}}, sum(map(len, fields["traceback"])))

    @property
    def is_empty(self) -> bool:
        """Whether the run has produced no output yet."""
        return self._total_events == 0

    def clear(self, wait: bool, origin: str | None = None) -> None:
        """Add a request to clear the output."""
        self._count(EVENT_BYTES)
        if self._clears >= RICH_EVENTS:
            self._dropped_events += 1
            return
        self._clears += 1
        self._event("clear", {"wait": wait, **marked(origin)})

    def ask(self, prompt: str, password: bool) -> None:
        """Send a request for input. Too many interrupt the run, like too much output."""
        self._count(EVENT_BYTES + text_bytes(prompt))
        self._questions += 1
        if self._questions > RICH_EVENTS:
            self._interrupt()
            return
        self.announce("input_request", {"prompt": prompt, "password": password})

    def announce(self, kind: str, fields: dict[str, Any]) -> None:
        """Send an event that cannot wait, such as `started`."""
        self._flush()
        self._journal.append(kind, fields)

    def finish(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Write what is held back, what was dropped, and `done`; return that, or None when the journals are sealed."""
        self._flush()
        if self._window is not None:
            self._window.cancel()
        tail = self._tail
        dropped_bytes = self._dropped_bytes + (tail.dropped_bytes if tail else 0)
        dropped_events = self._dropped_events + (tail.dropped_events if tail else 0)
        if dropped_events:
            self._journal.append("truncated", {"droppedBytes": dropped_bytes, "droppedEvents": dropped_events})
        if tail is not None:
            for kind, held, _size in (*tail.kept, *tail.entries):
                self._journal.append(kind, held)
            self._tail = None
        self._journal.append("done", fields)
        return {"seq": self._journal.last_seq, "type": "done", **fields} if self._journal.ended else None

    def _event(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "error":
            fields = {key: value for key, value in fields.items() if key != "mime"}
        self._flush()
        if self._tail is None:
            self._journal.append(kind, fields)
        else:
            self._tail.add_event(kind, fields)

    def _takes_rich(self, size: int) -> bool:
        """Count an event of `size` bytes that is not text; return whether there is room for it."""
        self._count(size)
        if self._rich_events >= RICH_EVENTS or self._store.full:
            self._dropped_bytes += size
            self._dropped_events += 1
            return False
        self._rich_events += 1
        return True

    def _count(self, size: int) -> None:
        self._total_bytes += size
        self._total_events += 1
        if self._total_bytes > FLOOD_BYTES or self._total_events > FLOOD_EVENTS:
            self._interrupt()

    def _interrupt(self) -> None:
        if not self._flooded:
            self._flooded = True
            self._on_flood()

    def _open_window(self) -> None:
        self._window = self._loop.call_later(COALESCE_SECONDS, self._close_window)

    def _close_window(self) -> None:
        self._window = None
        if self._pending:
            self._flush()
            self._open_window()

    def _flush(self) -> None:
        if not self._pending:
            return
        text = self._pending[0] if len(self._pending) == 1 else "".join(self._pending)
        (name, origin), size = self._pending_name, self._pending_bytes
        self._pending.clear()
        self._pending_bytes = 0
        self._emit(name, text, size, marked(origin))

    def _emit(self, name: str, text: str, size: int, mark: dict[str, str]) -> None:
        if len(text) <= COALESCE_BYTES:
            self._emit_piece(name, text, size, mark)
            return
        for piece in pieces(text):
            self._emit_piece(name, piece, text_bytes(piece), mark)

    def _emit_piece(self, name: str, text: str, size: int, mark: dict[str, str]) -> None:
        if self._tail is None and (
            self._head_bytes + size > self._half_bytes or self._head_events >= self._half_events or self._store.full
        ):
            self._tail = _Tail(self._half_bytes, self._half_events)
        if self._tail is not None:
            self._tail.add_text(name, text, size, mark)
            return
        self._head_bytes += size
        self._head_events += 1
        self._journal.append(name, {"text": text, **mark})


def _is_excessive(mime: dict[str, Any]) -> bool:
    """Whether a bundle has more JSON than its reader accepts. Counts without recursion, as far as necessary."""
    if len(mime) > MIME_TYPES:
        return True
    values = 0
    level: list[Any] = [value for value in mime.values() if isinstance(value, (dict, list))]
    for _ in range(JSON_LEVELS):
        if not level:
            return False
        below: list[Any] = []
        for value in level:
            values += 1 + (2 if isinstance(value, dict) else 1) * len(value)
            if values > JSON_VALUES:
                return True
            parts = value.values() if isinstance(value, dict) else value
            below.extend(part for part in parts if isinstance(part, (dict, list)))
        level = below
    return bool(level)


def _placeholder(mime: dict[str, Any]) -> dict[str, str]:
    sizes = {kind: text_bytes(value) if isinstance(value, str) else len(repr(value)) for kind, value in mime.items()}
    kind = max(sizes, key=lambda name: sizes[name], default="text/plain")
    return {"text/plain": f"[{kind[:100]}, {sizes.get(kind, 0)} bytes, dropped]"}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "… (cut)"


def _cut_lines(lines: list[str], limit: int) -> list[str]:
    kept: list[str] = []
    left = limit
    for line in lines:
        if left <= 0:
            kept.append("… (cut)")
            break
        kept.append(_cut(line, left))
        # An empty line counts too, so that their number is bounded.
        left -= len(line) + 64
    return kept
