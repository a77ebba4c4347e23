"""`GET /codebox/files:watch`: streams changes of the working folder."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tornado import iostream

from codebox_server.errors import BoxError
from codebox_server.files.paths import resolve
from codebox_server.http.base import BoxHandler
from codebox_server.runs.journal import encode


class FileWatchHandler(BoxHandler):
    """One reader. Its first line is `ready`, followed by `reset` when the requested changes are no longer known."""

    _task: asyncio.Task[Any] | None = None

    async def get(self) -> None:
        """Stream changes below `path` after version `after`, or from now on; with `follow=false` only those so far."""
        path = self.get_query_argument("path", "")
        recursive = self._flag("recursive")
        follow = self._flag("follow")
        after = self.after() if self.get_query_argument("after", None) is not None else None
        if not os.path.lexists(self._resolve(path)):
            raise BoxError("not_found", "no such file or folder", "/query/path")
        watcher = self.box.files.watcher
        await watcher.enter()
        try:
            if follow:
                await self._send(path, recursive, after)
            else:
                self._send_known(path, recursive, after)
        finally:
            watcher.leave()

    def on_connection_close(self) -> None:
        """The reader has gone."""
        if self._task is not None:
            self._task.cancel()

    async def _send(self, path: str, recursive: bool, after: int | None) -> None:
        watcher = self.box.files.watcher
        changes = watcher.changes
        known = after is not None and changes.knows(after)
        position = after if known and after is not None else changes.version
        self.set_header("Content-Type", "application/x-ndjson")
        ready = {"version": position, "type": "ready", "mode": watcher.mode, "complete": watcher.complete}
        self.write(encode(ready))
        if after is not None and not known:
            self.write(encode({"version": position, "type": "reset", "reason": "forgotten"}))
        self._task = asyncio.ensure_future(self._follow(position, path, recursive))
        try:
            await self._task
        except (asyncio.CancelledError, iostream.StreamClosedError):
            # The reader has gone; the watch continues, so that it can come back.
            return
        self.finish()

    def _send_known(self, path: str, recursive: bool, after: int | None) -> None:
        watcher = self.box.files.watcher
        version = watcher.changes.version
        self.set_header("Content-Type", "application/x-ndjson")
        self.write(encode({"version": version, "type": "ready", "mode": watcher.mode, "complete": watcher.complete}))
        if after is not None and not watcher.changes.knows(after):
            self.write(encode({"version": version, "type": "reset", "reason": "forgotten"}))
        elif after is not None:
            self.write(watcher.changes.known(after, path, recursive))
        self.finish()

    async def _follow(self, position: int, path: str, recursive: bool) -> None:
        await self.flush()
        async for batch in self.box.files.watcher.changes.read(position, path, recursive):
            self.write(batch)
            await self.flush()

    def _flag(self, name: str) -> bool:
        value = self.get_query_argument(name, "true")
        if value not in ("true", "false"):
            raise BoxError("invalid_request", f"{name} has to be true or false", f"/query/{name}")
        return value == "true"

    def _resolve(self, path: str) -> str:
        try:
            return resolve(str(self.box.settings.data), path)
        except BoxError as error:
            raise BoxError(error.code, error.detail, "/query/path") from None
