"""The client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Literal, Self

import httpx
from typing_extensions import Unpack

from .. import models
from .._call import Call, creating, path_of
from ..options import BoxOptions, RunOptions, RunStep, StepsOptions, to_json
from .admin import AsyncAdmin
from .box import AsyncBox
from .templates import AsyncTemplates
from .transport import AsyncTransport
from .volumes import AsyncVolumes
from .webhooks import AsyncWebhooks

# A box may need a cold start.
_CREATE_SECONDS = 180.0
# Packages are installed after the start, and take up to five minutes of their own.
_INSTALL_SECONDS = 340.0
# Time for a cold start and for the run, which may take up to an hour of its own.
_RUN_SECONDS = 300.0

_State = Literal["creating", "ready", "paused", "hibernated", "deleting", "deleted", "failed", "lost"]


class AsyncBoxes:
    """Creates, finds and deletes boxes."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, **options: Unpack[BoxOptions]) -> AsyncBox:
        """Creates a box, or returns the user's own one with ``reuse`` or ``name``."""
        seconds = _CREATE_SECONDS + (_INSTALL_SECONDS if options.get("packages") else 0)
        call = creating(path_of("boxes"), {}, options, seconds=seconds)
        return AsyncBox(self._transport, await self._transport.json(models.Box, call))

    async def get(self, box: str) -> AsyncBox:
        """Finds a box by its id, including one that has ended."""
        return AsyncBox(self._transport, await self._transport.json(models.Box, Call("GET", path_of("boxes", box))))

    async def delete(self, box: str) -> None:
        """Deletes a box with its files; deleting it again has no effect."""
        await self._transport.done(Call("DELETE", path_of("boxes", box)))

    async def list(
        self, *, user: str | None = None, state: _State | None = None, metadata: str | None = None
    ) -> AsyncIterator[AsyncBox]:
        """Newest first, with ``metadata`` only those with this ``key=value``; ended boxes only with ``state``."""
        call = Call("GET", path_of("boxes"), query={"user": user, "state": state, "metadata": metadata})
        async for info in self._transport.items(models.Box, call):
            yield AsyncBox(self._transport, info)


class AsyncCodeBox:
    """
    The client of a gateway.

    Calls that the gateway defers, or that do not reach it, are repeated ``retries`` times where that is safe: calls
    that create or run something have an Idempotency-Key. Refusals raise a CodeBoxError.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        retries: int = 3,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """``url`` and ``key`` are by default those of ``CODEBOX_URL`` and ``CODEBOX_KEY``; ``http`` sends requests."""
        url = url or os.environ.get("CODEBOX_URL") or "http://localhost:8080"
        self._transport = AsyncTransport(url, key or os.environ.get("CODEBOX_KEY"), retries, http)
        self.boxes = AsyncBoxes(self._transport)
        self.templates = AsyncTemplates(self._transport)
        self.volumes = AsyncVolumes(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)
        self.admin = AsyncAdmin(self._transport)

    async def run(self, code: str, **options: Unpack[RunOptions]) -> models.Run:
        """Runs code once in a fresh box that is deleted afterwards."""
        seconds = _RUN_SECONDS + options.get("timeout_seconds", 60.0)
        call = creating(path_of("run"), {"code": code}, options, seconds=seconds)
        return await self._transport.json(models.Run, call)

    async def run_steps(self, *steps: RunStep, **options: Unpack[StepsOptions]) -> models.Run:
        """Runs steps one after the other in a fresh box, up to the first that fails."""
        seconds = _RUN_SECONDS + sum(step.get("timeout_seconds", 60.0) for step in steps)
        call = creating(path_of("run"), {"steps": [to_json(step) for step in steps]}, options, seconds=seconds)
        return await self._transport.json(models.Run, call)

    def usage(self) -> AsyncIterator[models.Usage]:
        """Usage of the caller's tenant, by day and user, newest day first."""
        return self._transport.items(models.Usage, Call("GET", path_of("usage")))

    async def caller(self) -> models.Caller:
        """The tenant and the scopes of the key."""
        return await self._transport.json(models.Caller, Call("GET", path_of("caller")))

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
