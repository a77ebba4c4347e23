"""What a kernel has written and the box server may not have heard yet, kept where it outlives the kernel.

Text goes from a kernel to the box server by a thread of the kernel and queues of ZeroMQ, all of which end with a
process that ends without warning. So a kernel also writes each text into memory that it shares with the box server,
which tells there how much it has heard, and reads the rest when the process has gone. What was written past Python,
into the pipes that a kernel has as its stdout and stderr, is read from those.

The memory begins with three numbers: the characters heard (written by the box server), the characters up to the last
record, and the bytes of records. A record has a kind, its number of characters, its number of bytes, and those bytes.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from codebox_server.bounds import LAST_WORDS_BYTES
from codebox_server.jupyter.message import Message

STREAMS = ("stdout", "stderr")
# Kinds of records: those of the streams by their place, the request that the following belong to, and that it runs.
_PARENT, _BEGIN = 2, 3
_HEARD, _HEAD = struct.Struct("<Q"), struct.Struct("<QQ")
_RECORD = struct.Struct("<BII")
_HEAD_AT = _HEARD.size
_START = _HEARD.size + _HEAD.size
# Below this nobody looks whether the records are still needed.
_SMALL_BYTES = 64 * 1024
# Heads of records, and a request's id, which is cut.
_OVERHEAD_BYTES = 512
_REQUEST_BYTES = 256
# One character has at most so many bytes.
_CHARACTER_BYTES = 4
# A number of an execution is shorter.
_DIGITS = 16
_ROOM_SECONDS = 1.0
_LOOK_SECONDS = 0.0005


class Notes:
    """The kernel's side. Not for several threads at once, but for `await_room`."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, LAST_WORDS_BYTES)
        self._used = 0
        self._total = 0
        self._parent = ""

    def text(self, parent: str, stream: str, text: str) -> int:
        """Keep a text that belongs to a request; returns how many characters there have been in all, with it."""
        return self._add(parent, STREAMS.index(stream), text)

    def begin(self, parent: str, count: int) -> int:
        """Keep that a request begins to run, which counts as the characters of its number."""
        return self._add(parent, _BEGIN, str(count))

    def has_room(self, characters: int) -> bool:
        """Whether a text of this length fits without displacing what was not heard."""
        return self._fits(characters * _CHARACTER_BYTES)

    def await_room(self, characters: int) -> None:
        """Wait until there is room, but not for long: then the oldest is displaced."""
        deadline = time.monotonic() + _ROOM_SECONDS
        while not self.has_room(characters) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _fits(self, size: int) -> bool:
        return _START + self._used + size + _OVERHEAD_BYTES <= LAST_WORDS_BYTES or self._is_heard()

    def _is_heard(self) -> bool:
        return bool(_HEARD.unpack_from(self._memory)[0] >= self._total)

    def _add(self, parent: str, kind: int, text: str) -> int:
        data = text.encode("utf-8", "replace")
        if self._used > _SMALL_BYTES and (self._is_heard() or not self._fits(len(data))):
            self._used, self._parent = 0, ""
        if parent != self._parent:
            self._parent = parent
            self._put(_PARENT, 0, parent.encode("utf-8", "replace")[:_REQUEST_BYTES])
        self._put(kind, len(text), data)
        self._total += len(text)
        # Last, so that no record is read that is not complete.
        _HEAD.pack_into(self._memory, _HEAD_AT, self._total, self._used)
        return self._total

    def _put(self, kind: int, characters: int, data: bytes) -> None:
        at = _START + self._used
        _RECORD.pack_into(self._memory, at, kind, characters, len(data))
        at += _RECORD.size
        self._memory[at : at + len(data)] = data
        self._used += _RECORD.size + len(data)


class LastWords:
    """The box server's side, for one process. What it reads was written by code of the box, and may be anything."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._heard = 0
        try:
            self._memory = self._own(os.memfd_create("last-words"))
            os.truncate(self._memory, LAST_WORDS_BYTES)
            pipes = [[self._own(end) for end in os.pipe()] for _ in STREAMS]
        except OSError:
            self.close()
            raise
        self._readers, self._writers = zip(*pipes, strict=True)
        for reader in self._readers:
            os.set_blocking(reader, False)
        # For the kernel: the memory, and both ends of a pipe for each stream.
        self.descriptors = [self._memory, *(end for ends in pipes for end in ends)]

    def handed_over(self) -> None:
        """The kernel has its descriptors."""
        for writer in self._writers:
            self._close(writer)

    def hear(self, message: Message) -> None:
        """A message of the kernel has come."""
        if b'"until"' not in message.raw_metadata or self._memory not in self._open:
            return
        own = message.metadata().get("codebox")
        until = own.get("until") if isinstance(own, dict) else None
        if isinstance(until, int) and self._heard < until < 1 << 63:
            self._heard = until
            os.pwrite(self._memory, _HEARD.pack(until), 0)

    def unheard(self, request: str) -> list[Message]:
        """The messages that would have come, once the process has gone. `request` is the last one that it had."""
        memory = os.pread(self._memory, LAST_WORDS_BYTES, 0)
        said = list(_said(memory, self._heard)) if len(memory) == LAST_WORDS_BYTES else []
        messages = [
            _message(parent, kind, "".join(text for _, _, text in group))
            for (parent, kind), group in groupby(said, key=lambda item: item[:2])
        ]
        for kind, reader in enumerate(self._readers):
            # Nothing is there, and some process holds the other end.
            with contextlib.suppress(BlockingIOError):
                data = os.read(reader, LAST_WORDS_BYTES)
                if data:
                    messages.append(_message(request, kind, data.decode("utf-8", "replace")))
        return messages

    def close(self) -> None:
        """Release what is open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _own(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)


def _said(memory: bytes, heard: int) -> Iterator[tuple[str, int, str]]:
    """Request, kind and text of each record that was not heard."""
    total, _ = _HEAD.unpack_from(memory, _HEAD_AT)
    records = list(_records(memory))
    position = total - sum(characters for _, characters, _ in records)
    parent = ""
    for kind, characters, data in records:
        text = data.decode("utf-8", "replace")
        position += characters
        if kind == _PARENT:
            parent = text
        elif position > heard:
            # A text is sent in parts, of which some may have come.
            yield parent, kind, text if kind == _BEGIN else text[heard - position :]


def _records(memory: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, number of characters and bytes of each record, up to the first that cannot be one."""
    _, used = _HEAD.unpack_from(memory, _HEAD_AT)
    at, end = _START, min(_START + used, len(memory))
    while at + _RECORD.size <= end:
        kind, characters, size = _RECORD.unpack_from(memory, at)
        at += _RECORD.size
        if kind > _BEGIN or at + size > end:
            return
        yield kind, characters, memory[at : at + size]
        at += size


def _message(parent: str, kind: int, text: str) -> Message:
    if kind == _BEGIN:
        count = int(text) if text.isdecimal() and len(text) < _DIGITS else None
        return _of("execute_input", parent, {"execution_count": count})
    return _of("stream", parent, {"name": STREAMS[kind], "text": text})


def _of(kind: str, parent: str, content: dict[str, Any]) -> Message:
    return Message(kind, parent, "execute_request", b"{}", json.dumps(content).encode())
