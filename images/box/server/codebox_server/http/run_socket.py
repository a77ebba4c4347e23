"""`/codebox/runs`: runs of code that share one connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import ClassVar

from tornado import websocket

from codebox_server.bounds import HEAD_SECONDS, SHARED_REPLY_BYTES, SHARED_RUN_BYTES
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, forget_closed, translate
from codebox_server.http.executions import read_request
from codebox_server.runs.execution import Execution
from codebox_server.runs.journal import Journal

_log = logging.getLogger(__name__)
# Codes of WebSocket (RFC 6455).
_GOING_AWAY = 1001
_FAILED = 1011


class RunSocketHandler(BoxHandler, websocket.WebSocketHandler):
    """A WebSocket that starts any number of executions and sends their events.

    A message is `{id}\\n{body}`, with the body of a PUT of that execution. A reply is `{id} {mark}\\n{content}`, where
    the mark is one of

    - `more`: events, one on each line. The first reply may have none: the execution was accepted.
    - `end`: the last events.
    - `rest`: the execution has more events than are sent here. Those after what was sent are at its own path.
    - the status of a refusal, with its error.

    A client that leaves ends only its streams.
    """

    _connected: ClassVar[set[RunSocketHandler]] = set()
    # The event loop keeps only weak references to its tasks.
    _tasks: set[asyncio.Task[None]]

    @classmethod
    def close_all(cls) -> None:
        """Close all connections: nothing more is sent over them."""
        for connection in list(cls._connected):
            connection.close(_GOING_AWAY)

    async def get(self) -> None:
        """Become a WebSocket."""
        await websocket.WebSocketHandler.get(self)

    def check_origin(self, origin: str) -> bool:
        """Accept any origin: only the gateway reaches this socket."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Begin without executions."""
        self._tasks = set()
        self._connected.add(self)

    def on_close(self) -> None:
        """Leave the executions alone; the next reply to each fails."""
        self._connected.discard(self)

    def on_message(self, message: str | bytes) -> None:
        """Start an execution. The next message is read at once."""
        assert isinstance(message, bytes)
        head, _, body = message.partition(b"\n")
        task = asyncio.ensure_future(self._run(head.decode(errors="replace"), body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, execution_id: str, body: bytes) -> None:
        try:
            execution = await self._start(execution_id, body)
            if execution is not None:
                await self._stream(execution_id, execution.journal)
        except websocket.WebSocketClosedError:
            # The client has left; the execution goes on and can be read again.
            return
        except Exception:
            _log.exception("the replies to an execution failed")
            self.close(_FAILED)

    async def _start(self, execution_id: str, body: bytes) -> Execution | None:
        try:
            request, context_id = read_request(self.box, execution_id, body)
            return await self.box.executions.start(request, context_id)
        except (BoxError, OSError) as raised:
            error = translate(raised)
        await self._reply(execution_id, str(error.status), json.dumps(error.to_json()).encode())
        return None

    async def _stream(self, execution_id: str, journal: Journal) -> None:
        # A queued run has no events yet: an early reply says that it was accepted.
        early = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._accept, execution_id)
        seq = size = 0
        try:
            async for batch in journal.read(0):
                early.cancel()
                size += len(batch) + SHARED_REPLY_BYTES
                if size > SHARED_RUN_BYTES:
                    await self._reply(execution_id, "rest")
                    return
                # A blank line is no event.
                seq += batch.count(b"\n") if len(batch) > 1 else 0
                is_last = journal.ended and seq == journal.last_seq
                await self._reply(execution_id, "end" if is_last else "more", batch)
        finally:
            early.cancel()

    def _accept(self, execution_id: str) -> None:
        with contextlib.suppress(websocket.WebSocketClosedError):
            self._reply(execution_id, "more").add_done_callback(forget_closed)

    def _reply(self, execution_id: str, mark: str, content: bytes = b"") -> asyncio.Future[None]:
        return self.write_message(f"{execution_id} {mark}\n".encode() + content, binary=True)
