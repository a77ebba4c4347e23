"""Search for lines: with ripgrep where it is installed, otherwise with Python."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from codebox_server.bounds import SEARCH_LINE_BYTES, SEARCH_LINES_PER_FILE, SEARCH_TEXT_BYTES

# The suffix that ripgrep adds to a line that it has cut.
_CUT = re.compile(rb" \[\.\.\. [^\]]{1,60}\]$")
_READ_BYTES = 64 * 1024


class Hit(NamedTuple):
    """A matching line: its number and the column of the first match in bytes, both from 1, and its text, cut."""

    line: int
    column: int
    text: str


def find_with_ripgrep(argv: list[str], paths: list[str], most: int) -> Iterator[tuple[str, Hit]]:
    """Yield hits in the order of the files. Leaving the iterator ends ripgrep."""
    options = [
        "--no-config",
        "--no-messages",
        "--no-heading",
        "--with-filename",
        "--null",
        "--line-number",
        "--column",
        "--color=never",
        "--text",
        # With mmap, a file that shrinks would crash the process.
        "--no-mmap",
        "--threads=1",
        f"--max-count={most}",
        f"--max-columns={SEARCH_TEXT_BYTES}",
        "--max-columns-preview",
    ]
    command = [argv[0], *options, *argv[1:], "--", *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            pending = b""
            while data := process.stdout.read1(_READ_BYTES):  # type: ignore[attr-defined]
                pending += data
                *records, pending = _split(pending)
                yield from (_parse(record) for record in records)
        finally:
            process.kill()


def _split(data: bytes) -> list[bytes]:
    """Split into records: a path up to NUL, which may contain line ends, and the rest of a line."""
    records = []
    start = 0
    while (middle := data.find(b"\0", start)) >= 0 and (end := data.find(b"\n", middle)) >= 0:
        records.append(data[start:end])
        start = end + 1
    return [*records, data[start:]]


def _parse(record: bytes) -> tuple[str, Hit]:
    path, rest = record.split(b"\0", 1)
    line, column, text = rest.split(b":", 2)
    return path.decode("utf-8", "surrogateescape"), Hit(int(line), int(column), _show(_CUT.sub(b"", text)))


def find_with_python(pattern: re.Pattern[bytes], paths: list[str]) -> Iterator[tuple[str, Hit]]:
    """The same without a limit on the time that a pattern takes: the caller has one."""
    for path in paths:
        try:
            yield from ((path, hit) for hit in _find_in(pattern, path))
        except OSError:
            # The file has vanished.
            continue


def _find_in(pattern: re.Pattern[bytes], path: str) -> Iterator[Hit]:
    number = found = 0
    is_new = True
    with open(path, "rb") as file:
        while found < SEARCH_LINES_PER_FILE and (piece := file.readline(SEARCH_LINE_BYTES)):
            number += is_new
            match = pattern.search(piece.removesuffix(b"\n")) if is_new else None
            # Only the beginning of a very long line is searched.
            is_new = piece.endswith(b"\n")
            if match is not None:
                found += 1
                yield Hit(number, match.start() + 1, _show(piece))


def _show(text: bytes) -> str:
    return text[:SEARCH_TEXT_BYTES].rstrip(b"\r\n").decode("utf-8", "replace")
