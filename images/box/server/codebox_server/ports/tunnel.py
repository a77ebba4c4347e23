"""Copies bytes between the gateway and a server inside this box, both ways, with backpressure and half-close."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from codebox_server.bounds import (
    TUNNEL_BUFFER_BYTES,
    TUNNEL_CONNECT_SECONDS,
    TUNNEL_HALF_OPEN_SECONDS,
    TUNNEL_PLACE_SECONDS,
    TUNNELS,
)
from codebox_server.errors import BoxError

_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Tunnels:
    """Slots for open tunnels."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(TUNNELS)

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a slot for the duration of the block; too_many_requests when none becomes free soon.

        So a gateway may close one tunnel and open another in either order.
        """
        try:
            async with asyncio.timeout(TUNNEL_PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            raise BoxError("too_many_requests", f"a box has at most {TUNNELS} tunnels") from None
        try:
            yield
        finally:
            self._places.release()


async def connect(port: int) -> socket.socket:
    """Connect to the server that listens at a port of the loopback interface, IPv4 first. Raises unreachable."""
    for family, host in _LOOPBACK:
        # Refused, no IPv6 here, or nobody accepts: the other address may still work.
        with contextlib.suppress(OSError):
            return await _connect_to(family, host, port)
    raise BoxError("unreachable", f"nothing listens on port {port}")


async def _connect_to(family: int, host: str, port: int) -> socket.socket:
    far = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(TUNNEL_CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(far, (host, port))
    except BaseException:
        far.close()
        raise
    return far


async def join(near: socket.socket, far: socket.socket) -> None:
    """Copy bytes until both sides have ended, one breaks, or one has ended and the other is silent for too long.

    Closes both.
    """
    moved = _Movement()
    pumps = [asyncio.create_task(_pump(near, far, moved)), asyncio.create_task(_pump(far, near, moved))]
    try:
        ended, open_ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        while open_ and not any(pump.exception() for pump in ended):
            seen = moved.count
            ended, open_ = await asyncio.wait(open_, timeout=TUNNEL_HALF_OPEN_SECONDS)
            if moved.count == seen:
                return
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        near.close()
        far.close()


class _Movement:
    def __init__(self) -> None:
        self.count = 0


async def _pump(source: socket.socket, sink: socket.socket, moved: _Movement) -> None:
    loop = asyncio.get_running_loop()
    buffer = bytearray(TUNNEL_BUFFER_BYTES)
    view = memoryview(buffer)
    while count := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(sink, view[:count])
        moved.count += 1
        # Both calls return at once while there is something to do: this lets others have their turn.
        await asyncio.sleep(0)
    sink.shutdown(socket.SHUT_WR)
