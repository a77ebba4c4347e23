"""Requests that take long: when the client goes away, what was done for it is given up."""

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
        """What the work returns; None when the client has gone, and then there is nobody to answer."""
        self._work = asyncio.ensure_future(work)
        try:
            return await self._work
        except asyncio.CancelledError:
            if self._work.cancelled() and self._closed:
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
