"""`/codebox/files`: uploads and downloads in the working folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from email.utils import formatdate

from tornado.web import stream_request_body

from codebox_server.bounds import DISCARD_BYTES, LIST_DEPTH_MAX, LIST_LIMIT, LIST_LIMIT_MAX
from codebox_server.errors import BoxError
from codebox_server.files.entry import entry, etag
from codebox_server.files.listing import list_folder
from codebox_server.files.metadata import metadata_in
from codebox_server.files.paths import resolve
from codebox_server.files.scratch import scratch_for
from codebox_server.files.upload import Upload, check_replaceable, look
from codebox_server.http.archives import send_archive
from codebox_server.http.base import BoxHandler
from codebox_server.http.conditions import check_absent, check_unchanged
from codebox_server.http.downloads import send_file

_UNBOUNDED = 1 << 62
# Never waits for the other end of a FIFO and never acquires a controlling terminal.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@stream_request_body
class FilesHandler(BoxHandler):
    """A file or a folder of the working folder."""

    _upload: Upload | None = None
    _refusal: BaseException | None = None
    _discarded = 0

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Decode a path, which may have bytes that are not UTF-8, as file names may."""
        return os.fsdecode(value) if name is None else super().decode_argument(value, name)

    def prepare(self) -> None:
        """Open the temporary file of an upload, or record why it is refused.

        The refusal is sent after the body has arrived: a client that still sends would see a broken connection
        instead.
        """
        if self.request.method != "PUT":
            return
        self.connection.set_max_body_size(_UNBOUNDED)
        try:
            self._begin_upload(self.path_args[0])
        except (BoxError, OSError) as error:
            self._refusal = error

    def _begin_upload(self, path: str) -> None:
        data = str(self.box.settings.data)
        target = resolve(data, path)
        if not path:
            raise BoxError("invalid_request", "the root folder cannot be replaced")
        self._check_target(target)
        self._upload = Upload(scratch_for(target, str(self.box.settings.upload)))

    async def data_received(self, chunk: bytes) -> None:
        """Accept a part of the body; the client is slowed to the speed of the disk."""
        if self._upload is None:
            self._discard(len(chunk))
            return
        try:
            await self._upload.write(chunk)
        except OSError as error:
            self._drop_upload()
            self._refusal = error

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > DISCARD_BYTES and self._refusal is not None and not self._finished:
            # Too much to wait for: the client learns of it from the response or from the end of the connection.
            self.set_header("Connection", "close")
            refusal = self._refusal
            self.send_error(500, exc_info=(type(refusal), refusal, None))

    def on_connection_close(self) -> None:
        """The client has gone: nothing remains of its upload."""
        self._drop_upload()

    def on_finish(self) -> None:
        """Ensure that no temporary file remains."""
        self._drop_upload()

    async def put(self, path: str) -> None:
        """Move the uploaded file into place: 201, or 200 when it replaced one."""
        if self._refusal is not None:
            raise self._refusal
        upload, self._upload = self._upload, None
        if upload is None:
            return
        target = resolve(str(self.box.settings.data), path)
        try:
            upload.note(metadata_in(self.request.headers))
            create_only = self.request.headers.get("If-None-Match", "").strip() == "*"
            async with self._guarded():
                existed = self._check_target(target)
                status = await asyncio.to_thread(upload.commit, target, not create_only)
        except FileExistsError:
            upload.abort()
            if create_only:
                raise BoxError("precondition_failed", "the file exists") from None
            raise BoxError("conflict", "a part of the path is a file") from None
        except BaseException:
            upload.abort()
            raise
        self.set_header("ETag", etag(status))
        self.send_json({**entry(path, status, target), "etag": etag(status)}, 200 if existed else 201)

    async def get(self, path: str) -> None:
        """Send the bytes of a file, whole or a range, or one page of a folder."""
        target = resolve(str(self.box.settings.data), path)
        fd = os.open(target, _OPEN_FLAGS)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                await self._send_folder(target, path)
                return
            if self.get_query_argument("as", None) is not None:
                raise BoxError("invalid_request", "only a folder can be downloaded as an archive", "/query/as")
            if not stat.S_ISREG(status.st_mode):
                raise BoxError("invalid_request", "not a file or folder")
            await send_file(self, fd, status, path)
        finally:
            os.close(fd)

    async def head(self, path: str) -> None:
        """Send the headers of GET."""
        await self.get(path)

    async def delete(self, path: str) -> None:
        """Remove a file, a link, or a folder with its contents."""
        if not path:
            raise BoxError("invalid_request", "the root folder cannot be deleted")
        target = resolve(str(self.box.settings.data), path)
        async with self._guarded():
            status = os.lstat(target)
            check_unchanged(self.request.headers, status)
            check_absent(self.request.headers, status)
            if stat.S_ISDIR(status.st_mode):
                await self.box.files.operations.remove_folder(target)
            else:
                os.unlink(target)
        self.send_nothing()

    async def _send_folder(self, target: str, path: str) -> None:
        kind = self.get_query_argument("as", None)
        if kind is None:
            await self._list(target, path)
        else:
            await send_archive(self, self.box.files.workers, target, kind)

    async def _list(self, target: str, path: str) -> None:
        limit = self.number_argument("limit", LIST_LIMIT, LIST_LIMIT_MAX)
        depth = self.number_argument("depth", 1, LIST_DEPTH_MAX)
        self.set_header("X-Codebox-Type", "directory")
        self.set_header("Last-Modified", formatdate(os.stat(target).st_mtime, usegmt=True))
        cursor = self.get_query_argument("cursor", None)
        self.send_json(await asyncio.to_thread(list_folder, target, path, limit, cursor, depth))

    def _check_target(self, target: str) -> bool:
        """Return whether there is a file to replace. Raises when the target or a precondition forbids it."""
        status = look(target)
        check_unchanged(self.request.headers, status)
        check_absent(self.request.headers, status)
        check_replaceable(status)
        return status is not None

    def _guarded(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Between the check of a precondition and the change that it guards, no other such request may run."""
        if any(name in self.request.headers for name in ("If-Match", "If-Unmodified-Since", "If-None-Match")):
            return self.box.files.guard
        return contextlib.nullcontext()

    def _drop_upload(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abort()
