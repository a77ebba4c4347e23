"""Long requests: when the client disconnects, the work for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from codebox_server.http.base import BoxHandler

T = TypeVar("T")


class WorkHandler(BoxHandler):
    """A handler whose work ends with its connection."""

    _work: asyncio.Task[Any] | None = None

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of the work; None when the client has gone, so that there is nobody to respond to."""
        task = self._work = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                return None
            raise
        finally:
            self._work = None

    _closed = False

    def on_connection_close(self) -> None:
        """The client has gone."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
