"""An upload: a file is written next to the working folder, then moved into place atomically."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import uuid
from collections.abc import Mapping

from codebox_server.bounds import CHUNK_BYTES
from codebox_server.errors import BoxError
from codebox_server.files.metadata import write_metadata
from codebox_server.files.paths import resolve


def look(target: str) -> os.stat_result | None:
    """Return the status of a path without following links; None when nothing is there."""
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(target)
    return None


def check_replaceable(status: os.stat_result | None) -> None:
    """Raise conflict for a folder, invalid_request for anything that is neither file nor link."""
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise BoxError("conflict", "there is a folder at this path")
    if status is not None and not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise BoxError("invalid_request", "not a file or folder")


async def put_file(data: str, folder: str, path: str, content: bytes) -> None:
    """Write a whole file to `path` below `data`, by way of `folder`. Raises invalid_request, conflict, OSError."""
    target = resolve(data, path)
    check_replaceable(look(target))
    upload = Upload(folder)
    try:
        await upload.write(content)
        await asyncio.to_thread(upload.commit, target, True)
    except FileExistsError:
        raise BoxError("conflict", "a part of the path is a file") from None
    finally:
        upload.abort()


class Upload:
    """A temporary file. `commit` moves it into place; `abort` removes it."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, uuid.uuid4().hex)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._chunks: list[bytes] = []
        self._size = 0
        self._closed = self._writing = self._aborted = False

    async def write(self, chunk: bytes) -> None:
        """Accept a chunk; large batches are written to disk in a thread. Raises OSError."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size < CHUNK_BYTES:
            return
        self._writing = True
        try:
            await asyncio.to_thread(self._flush)
        finally:
            self._writing = False
            if self._aborted:
                self._close()

    def note(self, metadata: Mapping[str, str]) -> None:
        """Note this about the file. Raises invalid_request."""
        write_metadata(self._fd, metadata)

    def commit(self, target: str, replace: bool) -> os.stat_result:
        """Move the file into place, creating its parents; without `replace` raises FileExistsError when the target
        exists.
        """
        try:
            self._flush()
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if replace:
                os.rename(self._path, target)
            else:
                os.link(self._path, target)
                os.unlink(self._path)
            return os.fstat(self._fd)
        except BaseException:
            self.abort()
            raise
        finally:
            self._close()

    def abort(self) -> None:
        """Remove the temporary file; do nothing after `commit`."""
        self._aborted = True
        if not self._writing:
            # A thread that still writes must not find its descriptor reused, so `write` closes it then.
            self._close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _flush(self) -> None:
        chunks, self._chunks, self._size = self._chunks, [], 0
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._fd, view) :]

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._fd)
