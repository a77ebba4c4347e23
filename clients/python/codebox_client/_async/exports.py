"""Exports of files of a box."""

from __future__ import annotations

from collections.abc import AsyncIterator

from typing_extensions import Unpack

from .._call import Call, creating, path_of
from ..models import Export, ExportSummary
from ..options import ExportOptions
from .transport import AsyncTransport


class AsyncExports:
    """Writes files of a box to a bucket of yours, or to presigned URLs."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        self._transport = transport
        self._path = path_of("boxes", box, "exports")

    async def create(self, **options: Unpack[ExportOptions]) -> Export:
        """Exports ``files`` with a URL each, or ``paths`` to ``s3``; after 30 s the result is one that still runs."""
        return await self._transport.json(Export, creating(self._path, {}, options))

    async def get(self, export: str) -> Export:
        """Reads an export with the files that have arrived."""
        return await self._transport.json(Export, Call("GET", f"{self._path}/{export}"))

    def list(self) -> AsyncIterator[ExportSummary]:
        """The exports of the box, newest first."""
        return self._transport.items(ExportSummary, Call("GET", self._path))

    async def cancel(self, export: str) -> None:
        """Cancels an export; files that have arrived stay."""
        await self._transport.done(Call("DELETE", f"{self._path}/{export}"))
