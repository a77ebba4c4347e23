# Generated from _async/volumes.py by generate.py.
"""Volumes of a tenant."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import Unpack

from .._call import Call, path_of
from ..models import Volume
from ..options import VolumeOptions, to_json
from .transport import Transport


class Volumes:
    """File systems that boxes share. A volume is named by its id, its name, or ``user:name``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, **options: Unpack[VolumeOptions]) -> Volume:
        """Creates a volume, or returns the one of this name."""
        call = Call("POST", path_of("volumes"), json={"name": name, **to_json(options)})
        return self._transport.json(Volume, call)

    def get(self, volume: str) -> Volume:
        """Finds a volume."""
        return self._transport.json(Volume, Call("GET", path_of("volumes", volume)))

    def delete(self, volume: str) -> None:
        """Deletes a volume with its files."""
        self._transport.done(Call("DELETE", path_of("volumes", volume)))

    def list(self, *, user: str | None = None) -> Iterator[Volume]:
        """Newest first, with ``user`` only those of this user."""
        return self._transport.items(Volume, Call("GET", path_of("volumes"), query={"user": user}))
