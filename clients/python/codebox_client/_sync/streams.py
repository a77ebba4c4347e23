# Generated from _async/streams.py by generate.py.
"""Streams of events."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

import httpx

from .._call import Call
from .._counting import Counting
from .._worlds import pause
from ..errors import CodeBoxError
from .transport import Transport

E = TypeVar("E")

_MAX_LINE = 64 * 1024 * 1024
_MAX_FAILURES = 10
_MAX_PAUSE_SECONDS = 5.0
# The gateway is about to stop: another one, or the next one, continues.
_CLOSING = b'{"type":"closing",'


class EventStream(Generic[E]):
    """
    The events of a stream, each once, up to the last one.

    A stream that is cut is resumed after the last event; after ten attempts without a new event it raises
    ``unavailable`` or ``timeout``. Leaving it closes the connection, but ends nothing in the box.
    """

    def __init__(
        self,
        transport: Transport,
        counting: Counting[E],
        reopen: Callable[[str, int | None], Call],
        *,
        run_id: str = "",
        first: Call | None = None,
        after: int | None = None,
    ) -> None:
        self._transport = transport
        self._counting = counting
        self._reopen = reopen
        self._first = first
        self._id = run_id
        self._after = after
        self._response: httpx.Response | None = None
        self._is_closed = False

    @property
    def id(self) -> str:
        """The id of the execution or command; known once the stream has been entered, or its first event was read."""
        if not self._id:
            raise ValueError("The stream has not begun yet: enter it with a `with` block, or read its first event.")
        return self._id

    def open(self) -> None:
        """Starts the run, unless it has been started."""
        if self._first is not None and self._response is None:
            first, self._first = self._first, None
            self._response = self._transport.open(first)
            self._id = self._response.headers.get("content-location", "").rpartition("/")[2]

    def close(self) -> None:
        """Closes the connection; what runs in the box continues."""
        self._is_closed = True
        if self._response is not None:
            self._response.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Only the loop holds the generator, so that leaving the loop closes the connection.
    def __iter__(self) -> Generator[E]:
        counting, seen, failures = self._counting, self._after, 0
        self.open()
        has_begun = self._response is not None
        while not self._is_closed:
            try:
                if self._response is None:
                    self._response = self._transport.open(self._reopen(self._id, seen))
                has_begun = True
                # The run has ended, and no events follow.
                if self._response.status_code == 204:
                    return
                for line in _lines(self._response):
                    if line.startswith(_CLOSING):
                        break
                    event = counting.parse(line)
                    if seen is not None and counting.is_repeated(event, seen):
                        continue
                    seen, failures = counting.position(event), 0
                    yield event
                    if counting.is_last(event):
                        return
            except CodeBoxError as error:
                # Whoever waits for the beginning of a stream is told that it is late; one that has begun is resumed.
                is_cut = error.code == "unavailable" or (error.code == "timeout" and has_begun)
                if not is_cut or failures >= _MAX_FAILURES:
                    raise
            finally:
                if self._response is not None:
                    self._response.close()
                    self._response = None
            if failures >= _MAX_FAILURES:
                raise CodeBoxError("unavailable", "The stream breaks off repeatedly.")
            pause(min(0.1 * 2**failures, _MAX_PAUSE_SECONDS))
            failures += 1


def _lines(response: httpx.Response) -> Iterator[bytes]:
    """The lines of a body that are not empty. Text after the last line end is dropped, as it is incomplete."""
    begun: list[bytes] = []
    size = 0
    try:
        for chunk in response.iter_bytes():
            head, *others = chunk.split(b"\n")
            begun.append(head)
            size += len(head)
            for other in others:
                line = b"".join(begun)
                begun, size = [other], len(other)
                if line:
                    yield line
            if size > _MAX_LINE:
                raise CodeBoxError("internal", "The gateway sent an endless line.")
    except (httpx.TransportError, httpx.StreamError) as cause:
        raise CodeBoxError("unavailable", "The stream was interrupted.") from cause
