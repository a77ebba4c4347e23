"""The open sockets to one process of a kernel: shell, iopub, stdin."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import zmq
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session

from codebox_server.bounds import DRAIN_MESSAGES, KERNEL_MESSAGE_BYTES
from codebox_server.jupyter.message import ClientMessage, Message, parse

_RECONNECT_MS = 5
# A plain number: to combine the flags of pyzmq takes longer than to look.
_POLLIN = int(zmq.POLLIN)
_RECEIVE_QUEUE = 32
_WELCOME_SECONDS = 1.0

Listener = Callable[[Message], None]


class KernelChannel:
    """Sockets that stay open as long as the kernel process lives. A restarted kernel gets a new channel.

    `on_iopub`, `on_shell` and `on_stdin` are called for each message, in the event loop.
    """

    def __init__(self, manager: KernelManager, on_iopub: Listener, on_shell: Listener, on_stdin: Listener) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = Session(key=manager.session.key, session=uuid.uuid4().hex, username="codebox")
        self._listeners = {"iopub": on_iopub, "shell": on_shell, "stdin": on_stdin}
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        self._welcome: asyncio.Future[None] = self._loop.create_future()
        self._info: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.closed = False
        self._manager = manager
        for name, kind in (("iopub", zmq.SUB), ("shell", zmq.DEALER), ("stdin", zmq.DEALER)):
            self._open(name, kind)

    def _open(self, name: str, kind: int) -> None:
        context: zmq.Context[Any] = zmq.Context.shadow(self._manager.context.underlying)
        socket = context.socket(kind)
        socket.linger = 0
        # The kernel binds after we connect: retry soon, not after the default of 100 ms.
        socket.reconnect_ivl = _RECONNECT_MS
        # Queued messages are memory of the server; beyond this limit the kernel waits.
        socket.rcvhwm = _RECEIVE_QUEUE
        socket.setsockopt(zmq.MAXMSGSIZE, KERNEL_MESSAGE_BYTES)
        if kind == zmq.SUB:
            socket.subscribe(b"")
        else:
            # The kernel requests input at the identity that sent the request, on another socket.
            socket.identity = self._session.bsession
        socket.connect(f"ipc://{self._manager.ip}-{getattr(self._manager, name + '_port')}")
        self._sockets[name] = socket
        self._loop.add_reader(socket.fileno(), self._drain, name)

    async def ready(self) -> None:
        """Wait until the kernel responds and knows our subscription. Raises CancelledError when this is closed."""
        request = self._session.msg("kernel_info_request")
        self._send("shell", request)
        await self._info
        # A kernel that does not send a welcome has received our subscription by now.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._welcome), _WELCOME_SECONDS)

    def execute(
        self,
        code: str,
        env: dict[str, str],
        *,
        takes_input: bool,
        message: ClientMessage | None = None,
        folder: str | None = None,
    ) -> str:
        """Send an execute request; return its message id, which its outputs carry. It has the header of `message`."""
        content = {
            "code": code,
            "silent": False,
            "store_history": message is None or message.store_history,
            "user_expressions": {} if message is None else message.expressions,
            "allow_stdin": takes_input,
            # An error must not abort requests that other clients of this kernel have queued.
            "stop_on_error": False,
        }
        header = self._session.msg_header("execute_request")
        if message is not None:
            header |= {"msg_id": message.id, "session": message.session, "username": message.username}
        own = {"env": env} if folder is None else {"env": env, "folder": folder}
        request = self._session.msg("execute_request", content, header=header, metadata={"codebox": own})
        self._send("shell", request)
        return str(request["header"]["msg_id"])

    async def prove(self, code: str, seconds: float) -> bool:
        """Whether code that prints nothing runs to its end; it does not count as an execution. Raises as `request`."""
        content = {"code": code, "silent": True, "store_history": False, "allow_stdin": False, "stop_on_error": False}
        return (await self.request("execute_request", content, seconds)).get("status") == "ok"

    async def request(self, kind: str, content: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the content of the reply to a request of our own. Raises TimeoutError, CancelledError when this is
        closed.
        """
        message = self._session.msg(kind, content)
        number = str(message["header"]["msg_id"])
        reply = self._pending[number] = self._loop.create_future()
        try:
            self._send("shell", message)
            async with asyncio.timeout(seconds):
                return await reply
        finally:
            del self._pending[number]

    def reply_input(self, text: str) -> None:
        """Reply to the pending input request of the kernel."""
        self._send("stdin", self._session.msg("input_reply", {"value": text, "status": "ok"}))

    def renew_iopub(self) -> None:
        """Subscribe anew: ZeroMQ permanently drops a connection that delivered a message beyond the limit."""
        if self.closed:
            return
        old = self._sockets["iopub"]
        self._loop.remove_reader(old.fileno())
        old.close(linger=0)
        self._open("iopub", zmq.SUB)

    def close(self) -> None:
        """Close the sockets; nothing is delivered afterwards."""
        if self.closed:
            return
        self.closed = True
        waiters: list[asyncio.Future[Any]] = [self._welcome, self._info, *self._pending.values()]
        for waiter in waiters:
            waiter.cancel()
        for socket in self._sockets.values():
            self._loop.remove_reader(socket.fileno())
            socket.close(linger=0)

    def _send(self, name: str, message: dict[str, Any]) -> None:
        if self.closed:
            return
        socket = self._sockets[name]
        # The queue of a kernel that does not read is full: the escalation of the run deals with such a kernel.
        with contextlib.suppress(zmq.Again):
            socket.send_multipart(self._session.serialize(message), zmq.NOBLOCK)
        # The descriptor is edge-triggered, and sending may have consumed the edge of a received message.
        if self._has_messages(name):
            self._loop.call_soon(self._drain, name)

    def _has_messages(self, name: str) -> bool:
        return bool(int(self._sockets[name].getsockopt(zmq.EVENTS)) & _POLLIN)

    def _drain(self, name: str) -> None:
        listener = self._listeners[name]
        for _ in range(DRAIN_MESSAGES):
            # Checked first: an exception for "no message" costs more than this check.
            if self.closed or not self._has_messages(name):
                return
            frames = self._sockets[name].recv_multipart(zmq.NOBLOCK)
            message = parse(frames)
            if message is None:
                continue
            if message.kind == "iopub_welcome":
                _resolve(self._welcome)
            elif message.kind == "kernel_info_reply":
                _resolve(self._info)
            elif message.parent_id in self._pending:
                self._on_reply(name, message)
            else:
                listener(message)
        # More is waiting: let the rest of the server have its turn first.
        self._loop.call_soon(self._drain, name)

    def _on_reply(self, name: str, message: Message) -> None:
        waiter = self._pending[message.parent_id]
        # Its status comes on another channel and carries no information.
        if name == "shell" and not waiter.done():
            waiter.set_result(message.content())


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
