"""`/codebox/tunnel/{port}`: turns the connection into one to a server inside the box."""

from __future__ import annotations

import asyncio
import socket

from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler
from codebox_server.ports.tunnel import connect, join

_ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n"
_PORT_MAX = 65_535


class TunnelHandler(BoxHandler):
    """The gateway talks to the server itself; the data is opaque here."""

    async def get(self, port: str) -> None:
        """Respond with 101 and then raw bytes. 502 `unreachable` when nothing listens, 429 when too many tunnels are
        open.
        """
        number = int(port)
        if not 1 <= number <= _PORT_MAX:
            raise BoxError("invalid_request", "not a port")
        if self.request.headers.get("Upgrade", "").lower() != "tunnel":
            raise BoxError("invalid_request", "a tunnel needs the header Upgrade: tunnel")
        async with self.box.tunnels.place():
            far = await connect(number)
            near = self._take_over()
            try:
                await asyncio.get_running_loop().sock_sendall(near, _ACCEPTED)
            except OSError:
                # The requester has gone.
                near.close()
                far.close()
                return
            await join(near, far)

    def _take_over(self) -> socket.socket:
        # The gateway sends nothing before it is accepted, so Tornado has read none of its data. Tornado's stream closes
        # its own descriptor; the duplicate keeps the connection and belongs to us alone.
        stream = self.detach()
        near: socket.socket = stream.socket.dup()
        stream.close()
        near.setblocking(False)
        return near
