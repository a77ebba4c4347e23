"""A folder on its way out as tar or zip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tornado import iostream
from tornado.web import RequestHandler

from codebox_server.bounds import TRANSFER_STALL_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.workers import Workers

_TYPES = {"tar": "application/x-tar", "zip": "application/zip"}


async def send_archive(handler: RequestHandler, workers: Workers, folder: str, kind: str) -> None:
    """Answer GET or HEAD for a folder. An archive that cannot be finished ends with its connection cut."""
    if kind not in _TYPES:
        raise BoxError("invalid_request", f"as has to be one of {', '.join(_TYPES)}", "/query/as")
    handler.set_header("X-Codebox-Type", "archive")
    handler.set_header("Content-Type", _TYPES[kind])
    if handler.request.method == "HEAD":
        handler.finish()
        return
    await send_chunks(handler, workers.stream("archive", {"path": folder, "format": kind}))


async def send_chunks(handler: RequestHandler, chunks: AsyncIterator[bytes]) -> None:
    """Answer with what a job writes. One that cannot be finished ends with its connection cut."""
    try:
        # What is refused is refused before the first byte.
        first = await anext(chunks, b"")
        await _send(handler, first, chunks)
    finally:
        await chunks.aclose()  # type: ignore[attr-defined]


async def _send(handler: RequestHandler, first: bytes, chunks: AsyncIterator[bytes]) -> None:
    try:
        handler.write(first)
        async for chunk in chunks:
            async with asyncio.timeout(TRANSFER_STALL_SECONDS):
                await handler.flush()
            handler.write(chunk)
        handler.finish()
    except (iostream.StreamClosedError, TimeoutError, BoxError, RuntimeError, OSError):
        # The reader has gone or does not read, or the archive broke: no end of the body is what tells the reader.
        handler.request.connection.stream.close()  # type: ignore[attr-defined]
