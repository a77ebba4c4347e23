"""Jupyter's WebSocket to a kernel, with a limit on what is buffered for a client that does not read."""

from __future__ import annotations

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.iostream import StreamBufferFullError

from codebox_server.bounds import SOCKET_BUFFER_BYTES


class BoundedWebsocketConnection(ZMQChannelsWebsocketConnection):
    """A client that falls too far behind loses its connection, so that the box does not run out of memory."""

    def handle_outgoing_message(self, stream: str, outgoing_msg: list[Any]) -> None:
        """Forward a message of the kernel."""
        connection = self.websocket_handler.ws_connection
        if connection is None or connection.stream is None:
            return
        connection.stream.max_write_buffer_size = SOCKET_BUFFER_BYTES
        try:
            super().handle_outgoing_message(stream, outgoing_msg)
        except StreamBufferFullError:
            connection._abort()
