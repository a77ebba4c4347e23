"""stdout and stderr of a kernel: sent soon, in parts, in order, and complete before a run or the kernel ends."""

from __future__ import annotations

import array
import codecs
import ctypes
import errno
import fcntl
import os
import select
import sys
import termios
import threading
import time
from dataclasses import dataclass
from typing import Any

from ipykernel.iostream import OutStream

from codebox_server.kernels.final_output import STREAMS, OutputRecorder

_READ_BYTES = 64 * 1024
# The most characters of one message, so that a huge print never becomes one huge message.
_PART = 256 * 1024
# How much may be buffered before the code that prints has to wait for the sender.
_BUFFER = 2 * 1024 * 1024
_FLUSH_SECONDS = 0.01
_DRAIN_SECONDS = 1.0

# Calls through it keep the lock of the interpreter.
_libc = ctypes.PyDLL(None, use_errno=True)


@dataclass(slots=True)
class _Segment:
    """Consecutive output of a stream for one request, and the number of characters up to its end."""

    stream: BoxOutStream
    parent: dict[str, Any]
    texts: list[str]
    until: int


class _Buffer:
    """Output of both streams that was not sent yet, in the order of writing."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start anew, without anything of an earlier process or of the time before `survive_with`."""
        self.lock = threading.RLock()
        self.segments: list[_Segment] = []
        self.size = 0
        self.scheduled = False
        # Whether what was taken last is still being sent.
        self.sending = False
        self.pid = os.getpid()
        self.recorder: OutputRecorder | None = None

    def add(self, stream: BoxOutStream, parent: dict[str, Any], text: str) -> None:
        """Append a text."""
        if self.pid != os.getpid():
            # A forked child starts with a copy of the buffer, which its parent sends itself.
            self.renew()
        with self.lock:
            until = self.recorder.add(parent, stream.place, text) if self.recorder is not None else 0
            last = self.segments[-1] if self.segments else None
            if last is not None and last.stream is stream and (last.parent is parent or last.parent == parent):
                last.texts.append(text)
                last.until = until
            else:
                self.segments.append(_Segment(stream, parent, [text], until))
            self.size += len(text)

    def take(self) -> list[_Segment]:
        """Empty the buffer and return its contents. `sending` is set before it looks empty."""
        with self.lock:
            self.sending = True
            segments, self.segments, self.size, self.scheduled = self.segments, [], 0, False
        return segments


_buffer = _Buffer()
# Both ends of the pipe of each stream, if the box server created them.
_pipes: dict[str, tuple[int, int]] = {}


def survive_with(descriptors: list[int]) -> None:
    """Keep output where it outlives this process: in the `descriptors` of the box server's FinalOutput."""
    memory, *ends = descriptors
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    _buffer.renew()
    _buffer.recorder = OutputRecorder(memory)
    os.close(memory)
    _pipes.update(zip(STREAMS, zip(ends[::2], ends[1::2], strict=True), strict=True))


def note_begin(parent: dict[str, Any], count: int) -> dict[str, Any]:
    """Record that a request begins to run as number `count`; return the metadata for the message that reports it."""
    if _buffer.recorder is None:
        return {}
    with _buffer.lock:
        return _metadata(_buffer.recorder.begin(parent, count))


def _metadata(until: int) -> dict[str, Any]:
    return {"codebox": {"until": until}}


class BoxOutStream(OutStream):
    """ipykernel's stream with one bounded buffer for both streams, and a flush that costs nothing when it is empty."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._reading = threading.Lock()
        self._forwarded = 0
        super().__init__(*args, **kwargs)
        # Whether this is one of the streams whose last output is kept.
        self.place = STREAMS.index(self.name)

    def write(self, string: str) -> int | None:  # type: ignore[override]
        """Buffer a text, after the raw writes that are already in the pipe."""
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if self._is_master_process():
            self._drain()
            self._store(string)
        else:
            _buffer.add(self, self.parent_header, string)
            # Lines of several children must not mix.
            if "\n" in string:
                self._flush()
        return len(string)

    def flush(self) -> None:
        """Send what is buffered, including raw writes."""
        if not self._is_master_process():
            self._flush()
            return
        self._drain()
        if _buffer.segments or _buffer.scheduled or _buffer.sending:
            super().flush()

    def _store(self, text: str) -> None:
        if len(text) <= _PART:
            self._store_part(text)
            return
        for start in range(0, len(text), _PART):
            self._store_part(text[start : start + _PART])

    def _store_part(self, text: str) -> None:
        if _buffer.recorder is not None and not _buffer.recorder.has_room(len(text)):
            super().flush()
            _buffer.recorder.await_room(len(text))
        _buffer.add(self, self.parent_header, text)
        if _buffer.size > _BUFFER:
            super().flush()
        elif not _buffer.scheduled:
            _buffer.scheduled = True
            self.pub_thread.schedule(lambda: self._io_loop.call_later(_FLUSH_SECONDS, self._flush))

    def _flush(self) -> None:
        """Send everything; called in the sending thread, or in a child without one."""
        try:
            for segment in _buffer.take():
                text = "".join(segment.texts)
                for start in range(0, len(text), _PART):
                    rest = max(0, len(text) - start - _PART)
                    metadata = _metadata(segment.until - rest) if segment.until else {}
                    segment.stream._send(segment.parent, text[start : start + _PART], metadata)
        finally:
            _buffer.sending = False

    def _send(self, parent: dict[str, Any], text: str, metadata: dict[str, Any]) -> None:
        self.session.pid = os.getpid()
        content = {"name": self.name, "text": text}
        message = self.session.msg("stream", content, parent=parent, metadata=metadata)
        for hook in self._hooks:
            message = hook(message)
            if message is None:
                return
        self.session.send(self.pub_thread, message, ident=self.topic)

    def _setup_stream_redirects(self, name: str) -> None:
        # As in stock ipykernel, but the pipe may be one that the box server shares.
        shared = _pipes.pop(name, None)
        reading, writing = os.pipe() if shared is None else shared
        self._fid = reading
        self._original_stdstream_fd = getattr(sys, name).fileno()
        self._original_stdstream_copy = os.dup(self._original_stdstream_fd)
        os.dup2(writing, self._original_stdstream_fd)
        os.close(writing)
        self._exc = None
        self.watch_fd_thread = threading.Thread(target=self._watch_pipe_fd, daemon=True)
        self.watch_fd_thread.start()

    def _watch_pipe_fd(self) -> None:
        """Forward data that any process writes to the raw descriptor."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        fd = self._fid
        assert fd is not None
        os.set_blocking(fd, False)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while self._should_watch:
            poll.poll()
            # Data that has left the pipe is in the buffer by the time the lock is free.
            with self._reading:
                data = _take(fd)
                text = decoder.decode(data)
                if text:
                    self._store(text)
                self._forwarded += len(data)

    def _drain(self) -> None:
        """Wait until the bytes that are in the pipe now have reached the buffer."""
        fd = self._fid
        if fd is None or threading.current_thread() is self.watch_fd_thread:
            return
        with self._reading:
            waiting = _readable_bytes(fd)
            target = self._forwarded + waiting
        deadline = time.monotonic() + _DRAIN_SECONDS
        while waiting and self._forwarded < target and time.monotonic() < deadline:
            time.sleep(0.0002)


def _take(fd: int) -> bytes:
    """Return what is in a pipe, which must not block; nothing if it is empty.

    `os.read` would let another thread run before its caller has the data. If that thread ended the process, they would
    be lost.
    """
    buffer = ctypes.create_string_buffer(_READ_BYTES)
    count = _libc.read(fd, buffer, _READ_BYTES)
    if count >= 0:
        return ctypes.string_at(buffer, count)
    error = ctypes.get_errno()
    if error == errno.EAGAIN:
        return b""
    raise OSError(error, os.strerror(error))


def _readable_bytes(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
