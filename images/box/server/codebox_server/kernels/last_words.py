"""What a kernel has written and the box server may not have heard yet, kept where it outlives the kernel.

Text goes from a kernel to the box server by a thread of the kernel and queues of ZeroMQ, all of which end with a
process that ends without warning. So a kernel also writes each text into memory that it shares with the box server,
which tells there how much it has heard, and reads the rest when the process has gone. What was written past Python,
into the pipes that a kernel has as its stdout and stderr, is read from those.

The memory begins with two numbers: the characters heard (written by the box server), and the characters before the
first record. A record has a kind, its number of characters, its number of bytes, and those bytes; the last is followed
by an end.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import struct
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from codebox_server.bounds import LAST_WORDS_BYTES
from codebox_server.jupyter.message import Message

STREAMS = ("stdout", "stderr")
# Kinds of records: the streams by their place, the request that what follows belongs to, that it runs, and the end.
_PARENT, _BEGIN, _END = 2, 3, b"\xff"
_NUMBER = struct.Struct("<Q")
_RECORD = struct.Struct("<BII")
_BEFORE_AT = _NUMBER.size
_START = 2 * _NUMBER.size
# So often is it looked whether the records are still needed.
_LOOK_BYTES = 64 * 1024
# Heads of records, and a request's id, which is cut.
_OVERHEAD_BYTES = 512
_REQUEST_CHARACTERS = 64
# One character has at most so many bytes.
_CHARACTER_BYTES = 4
# What UTF-8 cannot hold.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# A number of an execution is shorter.
_DIGITS = 16
_ROOM_SECONDS = 1.0
_LOOK_SECONDS = 0.0005


class Notes:
    """The kernel's side. Not for several threads at once, but for `await_room`. Each print passes here: it is brief."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, LAST_WORDS_BYTES)
        self._memory[_START : _START + 1] = _END
        self._parent: dict[str, Any] | None = None
        self._total = 0
        self._at = _START
        self._look_at = _START + _LOOK_BYTES

    def add(self, parent: dict[str, Any], kind: int, text: str) -> int:
        """Keep a text of a stream, by its place among `STREAMS`, that belongs to a request, by its header.

        Lone surrogates become U+FFFD, as in what is sent. Returns how many characters there have been in all, with it.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = _SURROGATE.sub("\ufffd", text).encode()
        if parent is not self._parent or self._at + len(data) > self._look_at:
            self._prepare(parent, len(data))
        return self._put(kind, len(text), data)

    def begin(self, parent: dict[str, Any], count: int) -> int:
        """Keep that a request begins to run, which counts as the characters of its number."""
        return self.add(parent, _BEGIN, str(count))

    def has_room(self, characters: int) -> bool:
        """Whether a text of this length fits without displacing what was not heard."""
        return self._fits(characters * _CHARACTER_BYTES) or self._is_heard()

    def await_room(self, characters: int) -> None:
        """Wait until there is room, but not for long: then what is there is displaced."""
        deadline = time.monotonic() + _ROOM_SECONDS
        while not self.has_room(characters) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _put(self, kind: int, characters: int, data: bytes) -> int:
        end = self._at + _RECORD.size + len(data)
        # With the end behind it, in one piece.
        self._memory[self._at : end + 1] = _RECORD.pack(kind, characters, len(data)) + data + _END
        self._at = end
        self._total += characters
        return self._total

    def _prepare(self, parent: dict[str, Any], size: int) -> None:
        """Make room, and say whose the next text is."""
        if self._at + size > self._look_at:
            if self._is_heard() or not self._fits(size):
                self._memory[_START : _START + 1] = _END
                _NUMBER.pack_into(self._memory, _BEFORE_AT, self._total)
                self._at, self._parent = _START, None
            self._look_at = min(self._at + size + _LOOK_BYTES, LAST_WORDS_BYTES - _OVERHEAD_BYTES)
        if parent is not self._parent:
            self._parent = parent
            self._put(_PARENT, 0, request_of(parent).encode("utf-8", "replace"))

    def _fits(self, size: int) -> bool:
        return self._at + size + _OVERHEAD_BYTES <= LAST_WORDS_BYTES

    def _is_heard(self) -> bool:
        return bool(_NUMBER.unpack_from(self._memory)[0] >= self._total)


def request_of(parent: dict[str, Any]) -> str:
    """The id of a request, by its message or its header."""
    number = parent.get("header", parent).get("msg_id")
    return number[:_REQUEST_CHARACTERS] if isinstance(number, str) else ""


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
            os.pwrite(self._memory, _NUMBER.pack(until), 0)

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
    (position,) = _NUMBER.unpack_from(memory, _BEFORE_AT)
    parent = ""
    for kind, characters, data in _records(memory):
        text = data.decode("utf-8", "replace")
        position += characters
        if kind == _PARENT:
            parent = text
        elif position > heard:
            # A text is sent in parts, of which some may have come.
            yield parent, kind, text if kind == _BEGIN else text[heard - position :]


def _records(memory: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, number of characters and bytes of each record, up to the end or what cannot be a record."""
    at = _START
    while at + _RECORD.size <= len(memory):
        kind, characters, size = _RECORD.unpack_from(memory, at)
        at += _RECORD.size
        if kind > _BEGIN or at + size > len(memory):
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
