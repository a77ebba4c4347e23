"""The last output of a kernel, kept where it outlives the kernel.

Text travels from a kernel to the box server through a thread of the kernel and queues of ZeroMQ, all of which end
with a process that ends without warning. So a kernel also writes each text into memory that it shares with the box
server. The box server records there how much it has received, and reads the rest when the process has ended. Output
that bypasses Python goes into the pipes that are the kernel's stdout and stderr, and is read from those.

The memory begins with three numbers: the characters received (written by the box server), the characters before the
first record, and all characters so far. A record has a kind, its number of characters, its number of bytes, and those
bytes; an end mark follows the last record.
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

from codebox_server.bounds import FINAL_OUTPUT_BYTES
from codebox_server.jupyter.message import Message

STREAMS = ("stdout", "stderr")
# Kinds of records: the streams by index, the request that the following records belong to, the begin of a run, and the
# end mark.
_PARENT, _BEGIN, _END = 2, 3, b"\xff"
_NUMBER = struct.Struct("<Q")
_RECORD = struct.Struct("<BII")
_BEFORE_AT = _NUMBER.size
_TOTAL_AT = 2 * _NUMBER.size
_START = 3 * _NUMBER.size
# How often the kernel checks whether the records are still needed.
_LOOK_BYTES = 64 * 1024
# Record headers, and the id of a request, which is cut.
_OVERHEAD_BYTES = 512
_REQUEST_CHARACTERS = 64
# The most bytes that one character takes.
_CHARACTER_BYTES = 4
# Characters that UTF-8 cannot encode.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# The number of an execution is shorter.
_DIGITS = 16
_ROOM_SECONDS = 1.0
_LOOK_SECONDS = 0.0005


class OutputRecorder:
    """The kernel's side. Not thread-safe, except for `await_room`. Every print passes here, so it is brief."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, FINAL_OUTPUT_BYTES)
        self._memory[_START : _START + 1] = _END
        self._parent: dict[str, Any] | None = None
        self._total = 0
        self._at = _START
        self._look_at = _START + _LOOK_BYTES

    def add(self, parent: dict[str, Any], kind: int, text: str) -> int:
        """Record a text of a stream, by its index in `STREAMS`, that belongs to a request, by its header.

        Lone surrogates become U+FFFD, as in messages. Returns the total number of characters, including this text.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = _SURROGATE.sub("\ufffd", text).encode()
        if parent is not self._parent or self._at + len(data) > self._look_at:
            self._prepare(parent, len(data))
        return self._put(kind, len(text), data)

    def begin(self, parent: dict[str, Any], count: int) -> int:
        """Record that a request begins to run, which counts as the characters of its number."""
        return self.add(parent, _BEGIN, str(count))

    def has_room(self, characters: int) -> bool:
        """Whether a text of this length fits without overwriting records that were not received."""
        return self._fits(characters * _CHARACTER_BYTES) or self._is_received()

    def await_room(self, characters: int) -> None:
        """Wait until there is room, but not for long: after that, older records are overwritten."""
        deadline = time.monotonic() + _ROOM_SECONDS
        while not self.has_room(characters) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _put(self, kind: int, characters: int, data: bytes) -> int:
        end = self._at + _RECORD.size + len(data)
        # With the end mark after it, in one write.
        self._memory[self._at : end + 1] = _RECORD.pack(kind, characters, len(data)) + data + _END
        self._at = end
        self._total += characters
        _NUMBER.pack_into(self._memory, _TOTAL_AT, self._total)
        return self._total

    def _prepare(self, parent: dict[str, Any], size: int) -> None:
        """Make room, and record the request that the next text belongs to."""
        if self._at + size > self._look_at:
            if self._is_received() or not self._fits(size):
                self._memory[_START : _START + 1] = _END
                _NUMBER.pack_into(self._memory, _BEFORE_AT, self._total)
                self._at, self._parent = _START, None
            self._look_at = min(self._at + size + _LOOK_BYTES, FINAL_OUTPUT_BYTES - _OVERHEAD_BYTES)
        if parent is not self._parent:
            self._parent = parent
            self._put(_PARENT, 0, request_of(parent).encode("utf-8", "replace"))

    def _fits(self, size: int) -> bool:
        return self._at + size + _OVERHEAD_BYTES <= FINAL_OUTPUT_BYTES

    def _is_received(self) -> bool:
        return bool(_NUMBER.unpack_from(self._memory)[0] >= self._total)


def request_of(parent: dict[str, Any]) -> str:
    """Return the id of a request, from its message or its header."""
    number = parent.get("header", parent).get("msg_id")
    return number[:_REQUEST_CHARACTERS] if isinstance(number, str) else ""


class FinalOutput:
    """The box server's side, for one process. Code of the box may have written anything to the memory."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        # The characters of the messages that have arrived.
        self.received = 0
        try:
            self._memory = self._own(os.memfd_create("final-output"))
            os.truncate(self._memory, FINAL_OUTPUT_BYTES)
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
        """Close our copies once the kernel has its descriptors."""
        for writer in self._writers:
            self._close(writer)

    def mark_received(self, message: Message) -> None:
        """Record that a message of the kernel has arrived."""
        if b'"until"' not in message.raw_metadata or self._memory not in self._open:
            return
        own = message.metadata().get("codebox")
        until = own.get("until") if isinstance(own, dict) else None
        if isinstance(until, int) and self.received < until < 1 << 63:
            self.received = until
            os.pwrite(self._memory, _NUMBER.pack(until), 0)

    def written(self) -> int:
        """The characters that the kernel has written so far, including what records the begin of runs."""
        number = os.pread(self._memory, _NUMBER.size, _TOTAL_AT) if self._memory in self._open else b""
        return int(_NUMBER.unpack(number)[0]) if len(number) == _NUMBER.size else 0

    def unreceived(self, request: str) -> list[Message]:
        """Return the messages that did not arrive, once the process has ended. `request` is its last request."""
        memory = os.pread(self._memory, FINAL_OUTPUT_BYTES, 0)
        records = list(_unreceived(memory, self.received)) if len(memory) == FINAL_OUTPUT_BYTES else []
        messages = [
            _message(parent, kind, "".join(text for _, _, text in group))
            for (parent, kind), group in groupby(records, key=lambda item: item[:2])
        ]
        for kind, reader in enumerate(self._readers):
            # The pipe is empty, and some process still holds the other end.
            with contextlib.suppress(BlockingIOError):
                data = os.read(reader, FINAL_OUTPUT_BYTES)
                if data:
                    messages.append(_message(request, kind, data.decode("utf-8", "replace")))
        return messages

    def close(self) -> None:
        """Release everything that is open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _own(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)


def _unreceived(memory: bytes, received: int) -> Iterator[tuple[str, int, str]]:
    """Yield request, kind and text of each record that was not received."""
    (position,) = _NUMBER.unpack_from(memory, _BEFORE_AT)
    parent = ""
    for kind, characters, data in _records(memory):
        text = data.decode("utf-8", "replace")
        position += characters
        if kind == _PARENT:
            parent = text
        elif position > received:
            # A text is sent in parts, some of which may have arrived.
            yield parent, kind, text if kind == _BEGIN else text[received - position :]


def _records(memory: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, number of characters and bytes of each record, up to the end mark or an invalid record."""
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
