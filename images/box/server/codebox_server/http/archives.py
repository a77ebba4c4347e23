"""Downloads a folder as tar or zip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from tornado import iostream

from codebox_server.bounds import TRANSFER_STALL_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.workers import Workers
from codebox_server.http.base import BoxHandler

_TYPES = {"tar": "application/x-tar", "zip": "application/zip"}


async def send_archive(handler: BoxHandler, workers: Workers, folder: str, kind: str) -> None:
    """Respond to GET or HEAD for a folder. If an archive cannot be finished, its connection is cut."""
    if kind not in _TYPES:
        raise BoxError("invalid_request", f"as has to be one of {', '.join(_TYPES)}", "/query/as")
    handler.set_header("X-Codebox-Type", "archive")
    handler.set_header("Content-Type", _TYPES[kind])
    if handler.request.method == "HEAD":
        handler.finish()
        return
    await send_chunks(handler, workers.stream("archive", {"path": folder, "format": kind}))


async def send_chunks(handler: BoxHandler, chunks: AsyncGenerator[bytes]) -> None:
    """Respond with what a job writes. If the job cannot finish, its connection is cut."""
    try:
        # A refusal comes before the first byte.
        first = await anext(chunks, b"")
        await _send(handler, first, chunks)
    finally:
        await chunks.aclose()


async def _send(handler: BoxHandler, first: bytes, chunks: AsyncGenerator[bytes]) -> None:
    try:
        handler.write(first)
        async for chunk in chunks:
            async with asyncio.timeout(TRANSFER_STALL_SECONDS):
                await handler.flush()
            handler.write(chunk)
        handler.finish()
    except (iostream.StreamClosedError, TimeoutError, BoxError, RuntimeError, OSError):
        # The reader has gone or does not read, or the archive failed: the missing end of the body informs the reader.
        handler.connection.stream.close()
