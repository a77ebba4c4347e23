# Generated from _async/exports.py by generate.py.
"""Exports of files of a box."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import Unpack

from .._call import Call, creating, path_of
from ..models import Export, ExportSummary
from ..options import ExportOptions
from .transport import Transport


class Exports:
    """Writes files of a box to a bucket of yours, or to presigned URLs."""

    def __init__(self, transport: Transport, box: str) -> None:
        self._transport = transport
        self._path = path_of("boxes", box, "exports")

    def create(self, **options: Unpack[ExportOptions]) -> Export:
        """Exports ``files`` with a URL each, or ``paths`` to ``s3``; after 30 s the result is one that still runs."""
        return self._transport.json(Export, creating(self._path, {}, options))

    def get(self, export: str) -> Export:
        """Reads an export with the files that have arrived."""
        return self._transport.json(Export, Call("GET", f"{self._path}/{export}"))

    def list(self) -> Iterator[ExportSummary]:
        """The exports of the box, newest first."""
        return self._transport.items(ExportSummary, Call("GET", self._path))

    def cancel(self, export: str) -> None:
        """Cancels an export; files that have arrived stay."""
        self._transport.done(Call("DELETE", f"{self._path}/{export}"))
