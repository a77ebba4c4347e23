"""`/codebox/runs`: runs of code that share one connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

from tornado import websocket

from codebox_server.bounds import HEAD_SECONDS, SHARED_RUN_BYTES
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, forget_closed, translate
from codebox_server.http.executions import read_request
from codebox_server.runs.journal import Journal

_log = logging.getLogger(__name__)


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

    streams: set[asyncio.Task[None]]

    async def get(self) -> None:
        """Become a WebSocket."""
        await websocket.WebSocketHandler.get(self)

    def check_origin(self, origin: str) -> bool:
        """Accept any origin: only the gateway reaches this socket."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Begin without streams."""
        self.streams = set()

    def on_message(self, message: str | bytes) -> None:
        """Start an execution. The next message is read at once."""
        head, _, body = (message.encode() if isinstance(message, str) else message).partition(b"\n")
        stream = asyncio.ensure_future(self._run(head.decode(errors="replace"), body))
        self.streams.add(stream)
        stream.add_done_callback(self.streams.discard)

    def on_close(self) -> None:
        """End the streams; the executions go on."""
        for stream in self.streams:
            stream.cancel()

    async def _run(self, execution_id: str, body: bytes) -> None:
        with contextlib.suppress(websocket.WebSocketClosedError):
            try:
                request, context_id = read_request(self.box, execution_id, body)
                execution = await self.box.executions.start(request, context_id)
            except Exception as raised:
                error = translate(raised)
                if not isinstance(raised, (BoxError, OSError)):
                    _log.exception("an execution could not be started")
                await self._reply(execution_id, str(error.status), json.dumps(error.to_json()).encode())
            else:
                await self._stream(execution_id, execution.journal)

    async def _stream(self, execution_id: str, journal: Journal) -> None:
        # A queued run has no events yet: an early reply says that it was accepted.
        early = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._accept, execution_id)
        seq = size = 0
        try:
            async for batch in journal.read(0):
                early.cancel()
                size += len(batch)
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
