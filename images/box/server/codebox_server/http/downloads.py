"""Downloads a file: conditionally, by range, and from the page cache straight into the socket."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
import socket
from email.utils import formatdate

from tornado.web import RequestHandler

from codebox_server.bounds import SMALL_FILE_BYTES, TRANSFER_STALL_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.entry import etag
from codebox_server.http.conditions import check_unchanged, is_known, range_holds

_RANGE = re.compile(r"(?i:bytes)\s*=\s*(\d{0,18})-(\d{0,18})")
# Each has to be sent within the time for which a reader may stall.
_SLICE_BYTES = 256 * 1024


async def send_file(handler: RequestHandler, fd: int, status: os.stat_result, path: str) -> None:
    """Respond to GET or HEAD for an open regular file."""
    tag = etag(status)
    handler.set_header("ETag", tag)
    handler.set_header("Last-Modified", formatdate(status.st_mtime, usegmt=True))
    handler.set_header("Accept-Ranges", "bytes")
    handler.set_header("X-Codebox-Type", "file")
    check_unchanged(handler.request.headers, status)
    if is_known(handler.request.headers, status):
        handler.set_status(304)
        handler.finish()
        return
    start, end = _range(handler, status)
    if start > end:
        _refuse_range(handler, status.st_size)
        return
    handler.set_header("Content-Type", mimetypes.guess_type(path)[0] or "application/octet-stream")
    handler.set_header("Content-Length", end - start)
    if handler.request.method == "HEAD":
        handler.finish()
    elif end - start <= SMALL_FILE_BYTES:
        await _send_small(handler, fd, start, end)
    else:
        handler.set_header("Connection", "close")
        await _send_large(handler, fd, start, end)


def _range(handler: RequestHandler, status: os.stat_result) -> tuple[int, int]:
    """Return the first byte and the one after the last; the first is larger when the range cannot be satisfied."""
    size = status.st_size
    header = handler.request.headers.get("Range")
    # A range has a meaning for GET only.
    match = _RANGE.fullmatch(header.strip()) if header and handler.request.method == "GET" else None
    if match is None or match.groups() == ("", "") or not range_holds(handler.request.headers, status):
        # Several ranges and other units may be ignored.
        return 0, size
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else size, size)
        invalid = bool(last) and int(last) < start
    else:
        start, end = max(0, size - int(last)), size
        invalid = False
    if invalid:
        return 0, size
    if start >= end:
        return 1, 0
    handler.set_status(206)
    handler.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
    return start, end


def _refuse_range(handler: RequestHandler, size: int) -> None:
    error = BoxError("range_not_satisfiable", f"the file has {size} bytes")
    handler.set_status(error.status)
    handler.set_header("Content-Range", f"bytes */{size}")
    handler.finish(error.to_json())


async def _send_small(handler: RequestHandler, fd: int, start: int, end: int) -> None:
    data = os.pread(fd, end - start, start)
    # If the file shrinks meanwhile, the response is shorter.
    handler.set_header("Content-Length", len(data))
    handler.finish(data)


async def _send_large(handler: RequestHandler, fd: int, start: int, end: int) -> None:
    """Send the headers, then let the operating system copy to the connection, which closes afterwards."""
    await handler.flush()
    stream = handler.detach()
    # Tornado's stream closes its own descriptor; the duplicate keeps the connection and belongs to us alone.
    out: socket.socket = stream.socket.dup()
    stream.close()
    out.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        with os.fdopen(os.dup(fd), "rb", buffering=0) as file:
            while start < end:
                async with asyncio.timeout(TRANSFER_STALL_SECONDS):
                    sent = await loop.sock_sendfile(out, file, start, min(_SLICE_BYTES, end - start), fallback=False)
                if sent == 0:
                    # The file has shrunk: the reader notices, as it receives fewer bytes than announced.
                    return
                start += sent
    except (ConnectionError, TimeoutError):
        # The reader has gone or does not read; there is nobody to notify.
        return
    finally:
        out.close()
