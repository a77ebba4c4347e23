"""`/codebox/checkpoint`: reads and replaces the whole volume."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tornado.web import stream_request_body

from codebox_server.bounds import DISCARD_BYTES
from codebox_server.errors import BoxError
from codebox_server.http.archives import send_chunks
from codebox_server.http.base import BoxHandler, env_field

_UNBOUNDED = 1 << 62


@stream_request_body
class CheckpointHandler(BoxHandler):
    """The checkpoint of a box. Only its gateway reads and writes it."""

    _feed: asyncio.Queue[bytes | None] | None = None
    _work: asyncio.Task[dict[str, Any]] | None = None
    _discarded = 0

    async def get(self) -> None:
        """Send all files of the volume, with the bound environment. On failure the connection is cut."""
        about = {"env": self.box.environment.bound}
        fields = {"root": str(self.box.settings.root), "about": about}
        self.set_header("Content-Type", "application/octet-stream")
        await send_chunks(self, self.box.files.workers.stream("pack", fields))

    def prepare(self) -> None:
        """Start to restore files while they arrive."""
        if self.request.method != "PUT":
            return
        self.connection.set_max_body_size(_UNBOUNDED)
        # At most one chunk waits, so the sender is slowed to the speed of the disk.
        self._feed = asyncio.Queue(maxsize=1)
        fields = {"root": str(self.box.settings.root)}
        self._work = asyncio.ensure_future(self.box.files.workers.take("unpack", fields, self._feed))

    async def data_received(self, chunk: bytes) -> None:
        """Accept a part of the body."""
        if self._feed is None or self._work is None:
            return
        put = asyncio.ensure_future(self._feed.put(chunk))
        await asyncio.wait({put, self._work}, return_when=asyncio.FIRST_COMPLETED)
        if put.done():
            return
        # The job has ended early; the response says why.
        put.cancel()
        self._discarded += len(chunk)
        if self._discarded > DISCARD_BYTES and not self._finished:
            self.set_header("Connection", "close")
            refusal = self._work.exception()
            self.send_error(500, exc_info=(type(refusal), refusal, None) if refusal else None)

    def on_connection_close(self) -> None:
        """The client has gone: the restored part is useless, and the client discards the box."""
        if self._work is not None:
            self._work.cancel()

    async def put(self) -> None:
        """Finish the restore: files are those of the checkpoint, and so are variables that are not bound already."""
        if self._feed is None or self._work is None:
            return
        end = asyncio.ensure_future(self._feed.put(None))
        try:
            result = await self._work
        except asyncio.CancelledError:
            if self._work.cancelled():
                return
            raise
        finally:
            end.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await end
        about = result.get("about")
        if not isinstance(about, dict):
            raise BoxError("invalid_request", "the data is not a checkpoint of a box")
        self.box.environment.restored = env_field(about)
        await self.box.bind(self.box.environment.bound, None)
        self.send_nothing()
