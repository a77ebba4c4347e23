"""The parts that deal with the working folder, put together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from codebox_server.files.operations import FileOperations
from codebox_server.files.watch.watcher import Watcher
from codebox_server.files.workers import Workers


@dataclass(frozen=True)
class Files:
    """What the file handlers use. `guard` is held from the check of a precondition to what it guards."""

    workers: Workers
    operations: FileOperations
    watcher: Watcher
    guard: asyncio.Lock = field(default_factory=asyncio.Lock)


def create_files(data: str, upload: str, polls: bool) -> Files:
    """Build the parts; nothing is started. `polls`: changes are looked for and not waited for."""
    workers = Workers()
    return Files(
        workers=workers, operations=FileOperations(data, upload, workers), watcher=Watcher(data, upload, polls)
    )
