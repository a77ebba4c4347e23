"""File operations besides reading and writing: make, move, copy, extract, fetch."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from codebox_server.bounds import JOB_SECONDS, REMOVE_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.entry import entry, etag
from codebox_server.files.paths import resolve
from codebox_server.files.relocation import Trash, check_source, put_in_place
from codebox_server.files.scratch import scratch_for
from codebox_server.files.workers import Workers

_CLEARING = 2


class FileOperations:
    """Operations below the folder `data` or at absolute paths, with unfinished results in `upload` or, on other file
    systems, in a folder of theirs.
    """

    def __init__(self, data: str, upload: str, workers: Workers) -> None:
        self._data = data
        self._upload = upload
        self._workers = workers
        # Separate from the threads that requests wait for: removing a folder of a million files takes a minute.
        self._clearing = ThreadPoolExecutor(_CLEARING, "clear")

    async def look(self, path: str) -> dict[str, Any]:
        """Return the entry at a path as it is: a link is not followed."""
        self._resolve(path, "/path", allow_root=True)
        return self._entry(path)

    async def make_folder(self, path: str) -> tuple[dict[str, Any], bool]:
        """Create the folder and its parents; return it and whether it is new. Raises conflict when a file is in the
        way.
        """
        target = self._resolve(path, "/path")
        existed = os.path.isdir(target)
        try:
            os.makedirs(target, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise BoxError("conflict", "the path, or a part of it, is a file", "/path") from None
        return self._entry(path), not existed

    async def move(self, source: str, target: str, overwrite: bool) -> dict[str, Any]:
        """Rename, atomically unless a folder is replaced."""
        old, new = self._resolve(source, "/from"), self._resolve(target, "/to")
        check_source(old, new)
        try:
            async with self._trash(new) as trash:
                await asyncio.to_thread(put_in_place, old, new, overwrite, trash, "/to")
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            await self._copy(old, new, overwrite)
            async with self._trash(old) as moved:
                await asyncio.to_thread(moved.take, old)
        return self._entry(target)

    async def copy(self, source: str, target: str, overwrite: bool) -> dict[str, Any]:
        """Copy with modes and times, links as links; the copy appears once it is complete."""
        old, new = self._resolve(source, "/from"), self._resolve(target, "/to")
        check_source(old, new)
        await self._copy(old, new, overwrite)
        return self._entry(target)

    async def _copy(self, old: str, new: str, overwrite: bool) -> None:
        if not overwrite and os.path.lexists(new):
            raise BoxError("conflict", "the path is taken", "/to")
        async with self._trash(new) as copied, self._trash(new) as trash:
            await self._workers.copy(old, copied.path, JOB_SECONDS)
            await asyncio.to_thread(put_in_place, copied.path, new, overwrite, trash, "/to")

    async def extract(self, path: str, to: str, kind: str | None, overwrite: bool) -> dict[str, Any]:
        """Extract an archive into the folder `to`, '' for the working folder: all of it, or nothing."""
        archive, target = self._resolve(path, "/path"), self._resolve(to, "/to", allow_root=True)
        if not os.path.isfile(archive):
            raise BoxError("not_found", "no such archive", "/path")
        async with self._trash(target) as temporary:
            fields = {"path": archive, "target": target, "temporary": temporary.path, "overwrite": overwrite}
            await self._workers.run("extract", {**fields, "format": kind}, JOB_SECONDS)
        return self._entry(to)

    async def fetch(
        self, url: str, path: str, headers: dict[str, str], seconds: float, most: int | None
    ) -> dict[str, Any]:
        """Download a URL into a file, which is replaced once the download is complete."""
        target = self._resolve(path, "/path")
        if os.path.isdir(target):
            raise BoxError("conflict", "there is a folder at this path", "/path")
        async with self._trash(target) as temporary, self._trash(target) as trash:
            fields = {"url": url, "headers": headers, "temporary": temporary.path, "maxBytes": most}
            await self._workers.run("fetch", fields, seconds)
            await asyncio.to_thread(put_in_place, temporary.path, target, True, trash, "/path")
        return self._entry(path)

    async def remove_folder(self, target: str) -> None:
        """Remove a folder by its absolute path: it disappears at once, and its disk space is freed soon."""
        trash = self._trash_for(target)
        await asyncio.to_thread(trash.take, target)
        clearing = self._clear(trash)
        await asyncio.wait([clearing], timeout=REMOVE_SECONDS)

    def _resolve(self, path: str, pointer: str, allow_root: bool = False) -> str:
        if not path and not allow_root:
            raise BoxError("invalid_request", "the working folder itself cannot be used here", pointer)
        try:
            return resolve(self._data, path)
        except BoxError as error:
            raise BoxError(error.code, error.detail, pointer) from None

    def _entry(self, path: str) -> dict[str, Any]:
        place = os.path.join(self._data, path) if path else self._data
        status = os.lstat(place)
        return {**entry(path, status, place), "etag": etag(status)}

    def _trash_for(self, target: str) -> Trash:
        return Trash(scratch_for(target, self._upload))

    @asynccontextmanager
    async def _trash(self, target: str) -> AsyncIterator[Trash]:
        trash = self._trash_for(target)
        try:
            yield trash
        finally:
            # Large folders take time, and a caller that leaves must not leave them behind.
            await asyncio.shield(self._clear(trash))

    def _clear(self, trash: Trash) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._clearing, trash.clear)
