"""Search for files by name and lines by content, page by page in the order of their paths."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from codebox_server.bounds import (
    SEARCH_BATCH_BYTES,
    SEARCH_BATCH_FILES,
    SEARCH_FILE_BYTES,
    SEARCH_LINES_PER_FILE,
    SEARCH_PAGE_BYTES,
    SEARCH_SECONDS,
)
from codebox_server.errors import BoxError
from codebox_server.files.entry import kind, path_fields
from codebox_server.files.jobs.glob import Glob, compile_glob
from codebox_server.files.jobs.lines import Hit, find_with_python, find_with_ripgrep
from codebox_server.files.jobs.walk import Entry, walk

_HEAD_BYTES = 8192
# Where a page begins: after this path, or after this line of it.
Position = tuple[list[str], int]


def search(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `{items, nextCursor, complete}`; `complete` is false when files were too large to be searched."""
    page = _Page(fields["limit"])
    after = _decode(fields.get("cursor"))
    entries = _entries(fields, after, page)
    if fields.get("content") is None:
        for entry in entries:
            if not page.add({**path_fields(entry.name), "type": kind(entry.status.st_mode)}, entry.name, 0):
                return page.result()
        page.passed()
    else:
        _search_content(fields, entries, after, page)
    return page.result()


class _Page:
    """The results of a page, and the position where the next page begins."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: list[dict[str, Any]] = []
        self._bytes = 0
        self._last: tuple[str, int] | None = None
        self._seen: str | None = None
        self._ends = time.monotonic() + SEARCH_SECONDS
        self.is_full = False
        self.complete = True

    def add(self, item: dict[str, Any], path: str, line: int) -> bool:
        """Add an item; return False when there is no room, so that it belongs to the next page."""
        self._bytes += len(json.dumps(item))
        if len(self._items) >= self._limit or (self._items and self._bytes > SEARCH_PAGE_BYTES):
            self.is_full = True
            return False
        self._items.append(item)
        self._last = (path, line)
        return True

    def begin(self, path: str) -> bool:
        """Called for each entry before it is examined; returns False when the page has taken too long and ends before
        this one.
        """
        if self._seen is not None and time.monotonic() > self._ends:
            self.is_full = True
            return False
        self._seen = path
        return True

    def passed(self) -> None:
        """Everything so far has been examined: the next page begins after it."""
        if self._seen is not None:
            self._last = (self._seen, 1 << 60)

    def result(self) -> dict[str, Any]:
        cursor = _encode(*self._last) if self.is_full and self._last else None
        return {"items": self._items, "nextCursor": cursor, "complete": self.complete}


def _entries(fields: dict[str, Any], after: Position | None, page: _Page) -> Iterator[Entry]:
    """Yield the entries to examine, by path relative to the working folder, until the page has taken too long."""
    root, path = fields["root"], fields["path"]
    top = os.path.join(root, path) if path else root
    prefix = path + "/" if path else ""
    name = fields.get("name")
    glob = _glob(name, fields.get("caseSensitive", True)) if name is not None else None
    status = os.lstat(top)
    is_file = not stat.S_ISDIR(status.st_mode)
    folders = path.split("/") if path else []
    begin = after[0][len(folders) :] if after is not None and after[0][: len(folders)] == folders else []
    for entry in [Entry(os.path.basename(path), top, status)] if is_file else walk(top, begin):
        shown = path if is_file else prefix + entry.name
        # A file with lines that remain to be returned is examined again.
        if after is not None and (
            shown.split("/") < after[0] or (shown.split("/") == after[0] and after[1] in (0, 1 << 60))
        ):
            continue
        if not page.begin(shown):
            return
        if glob is not None and not glob.fullmatch(entry.name):
            continue
        yield Entry(shown, entry.path, entry.status)


def _glob(name: str, case_sensitive: bool) -> Glob:
    try:
        return compile_glob(name, case_sensitive)
    except re.error as error:
        raise BoxError("invalid_request", f"not a pattern of names: {error}"[:300], "/query/name") from None


def _search_content(fields: dict[str, Any], entries: Iterator[Entry], after: Position | None, page: _Page) -> None:
    find = _finder(fields["content"], fields.get("caseSensitive", True))
    for batch in _batches(entries, page):
        names = {entry.path: entry.name for entry in batch}
        for path, hit in find([entry.path for entry in batch]):
            name = names[path]
            if after is not None and name.split("/") == after[0] and hit.line <= after[1]:
                continue
            if not page.add({**path_fields(name), **hit._asdict()}, name, hit.line):
                return
        page.passed()
    page.passed()


def _finder(pattern: str, case_sensitive: bool) -> Callable[[list[str]], Iterator[tuple[str, Hit]]]:
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        try:
            compiled = re.compile(pattern.encode(), 0 if case_sensitive else re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise BoxError("invalid_request", f"not a regular expression: {error}"[:300], "/query/content") from None
        return lambda paths: find_with_python(compiled, paths)
    case = "--case-sensitive" if case_sensitive else "--ignore-case"
    trial = [ripgrep, "--no-config", case, "--quiet", f"--regexp={pattern}", "--", os.devnull]
    tried = subprocess.run(trial, capture_output=True, check=False)
    if tried.returncode not in (0, 1):
        reason = tried.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1].removeprefix("error: ")
        raise BoxError("invalid_request", f"not a regular expression: {reason}"[:300], "/query/content")
    return lambda paths: find_with_ripgrep([ripgrep, case, f"--regexp={pattern}"], paths, SEARCH_LINES_PER_FILE)


def _batches(entries: Iterator[Entry], page: _Page) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if not stat.S_ISREG(entry.status.st_mode) or not entry.status.st_size or _is_binary(entry.path):
            continue
        if entry.status.st_size > SEARCH_FILE_BYTES:
            page.complete = False
            continue
        batch.append(entry)
        size += entry.status.st_size
        if len(batch) >= SEARCH_BATCH_FILES or size >= SEARCH_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_binary(path: str) -> bool:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb", buffering=0) as file:
            return b"\0" in file.read(_HEAD_BYTES)
    except OSError:
        # The file has vanished, or its owner does not let anybody read it.
        return True


def _encode(path: str, line: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([path, line]).encode()).decode().rstrip("=")


def _decode(cursor: str | None) -> Position | None:
    if cursor is None:
        return None
    try:
        path, line = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return path.split("/"), line + 0
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        raise BoxError("invalid_request", "not a cursor of this search", "/query/cursor") from None
