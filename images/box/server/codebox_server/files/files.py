"""Composition of the parts that handle the working folder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from codebox_server.files.operations import FileOperations
from codebox_server.files.watch.watcher import Watcher
from codebox_server.files.workers import Workers


@dataclass(frozen=True)
class Files:
    """The parts that file handlers use. `guard` is held from the check of a precondition until the guarded change is
    done.
    """

    workers: Workers
    operations: FileOperations
    watcher: Watcher
    guard: asyncio.Lock = field(default_factory=asyncio.Lock)


def create_files(data: str, upload: str, polls: bool) -> Files:
    """Build the parts without starting anything. `polls`: look for changes instead of waiting for notifications."""
    workers = Workers()
    return Files(
        workers=workers, operations=FileOperations(data, upload, workers), watcher=Watcher(data, upload, polls)
    )
