"""Volumes of a tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator

from typing_extensions import Unpack

from .._call import Call, path_of
from ..models import Volume
from ..options import VolumeOptions, to_json
from .transport import AsyncTransport


class AsyncVolumes:
    """File systems that boxes share. A volume is named by its id, its name, or ``user:name``."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, **options: Unpack[VolumeOptions]) -> Volume:
        """Creates a volume, or returns the one of this name."""
        call = Call("POST", path_of("volumes"), json={"name": name, **to_json(options)})
        return await self._transport.json(Volume, call)

    async def get(self, volume: str) -> Volume:
        """Finds a volume."""
        return await self._transport.json(Volume, Call("GET", path_of("volumes", volume)))

    async def delete(self, volume: str) -> None:
        """Deletes a volume with its files."""
        await self._transport.done(Call("DELETE", path_of("volumes", volume)))

    def list(self, *, user: str | None = None) -> AsyncIterator[Volume]:
        """Newest first, with ``user`` only those of this user."""
        return self._transport.items(Volume, Call("GET", path_of("volumes"), query={"user": user}))
