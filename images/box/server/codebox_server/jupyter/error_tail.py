"""The end of what a kernel process writes to its stderr, which explains why a kernel did not start."""

from __future__ import annotations

import asyncio
import os
import re

from codebox_server.bounds import KERNEL_STDERR_CHARACTERS, KERNEL_STDERR_PAUSE_SECONDS, KERNEL_STDERR_READ_BYTES

# Sequences of a terminal, and control characters other than tab and line feed.
_NOT_TEXT = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The most bytes that one character takes.
_CHARACTER_BYTES = 4


class ErrorTail:
    """Reads a pipe until the last process that has its other end, the `writer`, has ended."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe()
        self._open = True
        self._data = b""
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._on_data)

    def handed_over(self) -> None:
        """Close our copy of the writer once the kernel has its own."""
        os.close(self.writer)

    def text(self) -> str:
        """Return the end of what was written so far as plain text."""
        # A process that has just ended has written what the pipe holds.
        self._read()
        text = _NOT_TEXT.sub("", self._data.decode("utf-8", "replace"))
        return text.strip()[-KERNEL_STDERR_CHARACTERS:]

    def _on_data(self) -> None:
        if self._read() == KERNEL_STDERR_READ_BYTES:
            self._loop.remove_reader(self._reader)
            self._loop.call_later(KERNEL_STDERR_PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        if self._open:
            self._loop.add_reader(self._reader, self._on_data)

    def _read(self) -> int:
        """Read what the pipe holds, and return the number of bytes."""
        if not self._open:
            return 0
        try:
            data = os.read(self._reader, KERNEL_STDERR_READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self._open = False
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
        self._data = (self._data + data)[-KERNEL_STDERR_CHARACTERS * _CHARACTER_BYTES :]
        return len(data)
