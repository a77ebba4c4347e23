"""Events that a process of ours writes itself, as lines of JSON, beside its output."""

from __future__ import annotations

import asyncio
import json
import os

from codebox_server.bounds import REPORT_LINE_BYTES
from codebox_server.runs.output import Output

_READ_BYTES = 256 * 1024


class Reports:
    """A pipe from a process into the output of its run. Code of the box may write to it too, so it is not trusted: what
    is no object on a line is dropped, and the limits of rich output apply.
    """

    def __init__(self, kind: str, output: Output) -> None:
        self._kind = kind
        self._output = output
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reader, False)
        self._line = bytearray()
        self._too_long = False
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)

    def handed_over(self) -> None:
        """Close the end of the process, which has it now."""
        os.close(self.writer)

    def close(self) -> None:
        """Take what is in the pipe and stop reading, also when a child keeps it open."""
        if self._open:
            self._read()
        self._stop()

    def _stop(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._reader)
            os.close(self._reader)

    def _read(self) -> None:
        try:
            data = os.read(self._reader, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._stop()
            return
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._append(part)
            self._take()
        self._append(rest)

    def _append(self, part: bytes) -> None:
        self._too_long = self._too_long or len(self._line) + len(part) > REPORT_LINE_BYTES
        if not self._too_long:
            self._line += part

    def _take(self) -> None:
        line, self._line = bytes(self._line), bytearray()
        if self._too_long:
            self._too_long = False
            return
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(fields, dict):
            # These are the journal's own.
            fields.pop("seq", None)
            fields.pop("type", None)
            self._output.report(self._kind, fields, len(line))
