# Generated from _async/files.py by generate.py.
"""Files of a box."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

import httpx

from .. import _counting
from .._call import TRANSFER_SECONDS, USUAL_SECONDS, Call, file_path, path_of
from .._worlds import open_file
from ..errors import CodeBoxError
from ..models import FileEntry, SearchMatch, WatchEvent
from .streams import EventStream
from .transport import Transport

_CHUNK = 256 * 1024


class Files:
    """Files of a box. Paths are relative to ``/mnt/data``, its working folder."""

    def __init__(self, transport: Transport, box: str) -> None:
        self._transport = transport
        self._box = box
        self._folder = path_of("boxes", box, "files")

    def write(
        self,
        path: str,
        content: bytes | str | os.PathLike[str] | BinaryIO | Iterable[bytes],
        *,
        if_match: str | None = None,
        create: bool = False,
    ) -> FileEntry:
        """
        Writes a file as a whole; missing folders are created.

        Text and bytes are the content; a path is that of a local file, which is streamed as an open file is. With
        ``if_match`` only this version is overwritten, with ``create`` none: otherwise raises ``precondition_failed``.
        """
        make, is_repeatable = _body_of(content)
        headers = {
            "content-type": "application/octet-stream",
            "if-match": if_match,
            "if-none-match": "*" if create else None,
        }
        url = file_path(self._box, path)
        call = Call("PUT", url, content=make, headers=headers, is_repeatable=is_repeatable, seconds=TRANSFER_SECONDS)
        return self._transport.json(FileEntry, call)

    def read(self, path: str, *, start: int = 0, end: int | None = None) -> bytes:
        """The file in memory, or its bytes from ``start`` up to and including ``end``."""
        return self._transport.read(self._reading(path, start, end, TRANSFER_SECONDS))

    def read_text(self, path: str) -> str:
        """The file as UTF-8 text."""
        return (self.read(path)).decode()

    @contextmanager
    def open(self, path: str, *, start: int = 0, end: int | None = None) -> Iterator[Iterator[bytes]]:
        """Opens a file, and provides its bytes in pieces as they arrive."""
        response = self._transport.open(self._reading(path, start, end, USUAL_SECONDS))
        try:
            yield _pieces(response)
        finally:
            response.close()

    def download(self, path: str, target: str | os.PathLike[str]) -> None:
        """Streams a file to a local one, which is incomplete if this raises."""
        with self.open(path) as pieces:
            _save(pieces, target)

    def download_folder(
        self, path: str, target: str | os.PathLike[str], *, archive: Literal["tar", "zip"] = "zip"
    ) -> None:
        """Streams a folder to a local archive."""
        call = Call("GET", file_path(self._box, path), query={"as": archive})
        response = self._transport.open(call)
        try:
            _save(_pieces(response), target)
        finally:
            response.close()

    def list(self, path: str = "", *, recursive: bool = False, depth: int | None = None) -> Iterator[FileEntry]:
        """The entries of a folder by name, ``depth`` levels deep or ``recursive`` everything below it."""
        query: dict[str, int | bool | None] = {"recursive": True if recursive else None, "depth": depth}
        return self._transport.items(FileEntry, Call("GET", file_path(self._box, path), query=query))

    def make_folder(self, path: str) -> FileEntry:
        """Creates a folder and its missing parents."""
        return self._operate({"op": "mkdir", "path": path})

    def move(self, source: str, target: str, *, overwrite: bool = False) -> FileEntry:
        """Renames a file or a folder."""
        return self._operate({"op": "move", "from": source, "to": target, "overwrite": overwrite})

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> FileEntry:
        """Copies a file, or a folder with its contents."""
        return self._operate({"op": "copy", "from": source, "to": target, "overwrite": overwrite})

    def extract(self, path: str, *, to: str = "", overwrite: bool = False) -> FileEntry:
        """Extracts an archive into a folder, whole or not at all."""
        return self._operate({"op": "extract", "path": path, "to": to, "overwrite": overwrite})

    def fetch(self, url: str, path: str, *, timeout_seconds: int = 60) -> FileEntry:
        """Makes the box download a URL, under its own network policy."""
        return self._operate({"op": "fetch", "url": url, "path": path, "timeoutSeconds": timeout_seconds})

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Removes a file, or a folder with its contents."""
        self._transport.done(Call("DELETE", file_path(self._box, path), headers={"if-match": if_match}))

    def search(
        self, *, name: str | None = None, content: str | None = None, path: str = "", case_sensitive: bool = True
    ) -> Iterator[SearchMatch]:
        """Finds files by name (a glob), lines by content (a regular expression), or lines in files with such names."""
        query: dict[str, str | bool | None] = {"name": name, "content": content, "path": path or None}
        query["caseSensitive"] = None if case_sensitive else False
        return self._transport.items(SearchMatch, Call("GET", f"{path_of('boxes', self._box)}/files:search", query))

    def watch(self, path: str = "", *, recursive: bool = True, after: int | None = None) -> EventStream[WatchEvent]:
        """
        The changes below a folder as they happen, from version ``after`` on or from now on.

        A ``reset`` means that changes are missing: list the folder anew.
        """
        query = {"path": path or None, "recursive": None if recursive else False}

        def reopen(_: str, seen: int | None) -> Call:
            return Call("GET", f"{path_of('boxes', self._box)}/files:watch", query={**query, "after": seen})

        return EventStream(self._transport, _counting.watches, reopen, after=after)

    def _operate(self, operation: dict[str, Any]) -> FileEntry:
        call = Call("POST", self._folder, json=operation, seconds=TRANSFER_SECONDS)
        return self._transport.json(FileEntry, call)

    def _reading(self, path: str, start: int, end: int | None, seconds: float) -> Call:
        is_whole = start == 0 and end is None
        headers = {"range": None if is_whole else f"bytes={start}-{'' if end is None else end}"}
        return Call("GET", file_path(self._box, path), headers=headers, seconds=seconds)


def _body_of(
    content: bytes | str | os.PathLike[str] | BinaryIO | Iterable[bytes],
) -> tuple[Callable[[], Any], bool]:
    """How the body of a request is made, and whether it can be made again."""
    if isinstance(content, str):
        data = content.encode()
        return (lambda: data), True
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
        return (lambda: data), True
    if isinstance(content, os.PathLike):
        return (lambda: _file_at(content)), True
    if isinstance(content, Iterable) and not hasattr(content, "read"):
        return (lambda: content), False
    return (lambda: _pieces_of(content)), False


def _file_at(path: os.PathLike[str]) -> Iterator[bytes]:
    with open_file(path, "rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _save(pieces: Iterator[bytes], target: str | os.PathLike[str]) -> None:
    with open_file(target, "wb") as file:
        for piece in pieces:
            file.write(piece)


def _pieces_of(file: Any) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    try:
        for piece in response.iter_bytes():
            yield piece
    except httpx.TransportError as cause:
        raise CodeBoxError("unavailable", "The response was interrupted.") from cause
