"""TLS in front of this server's Unix socket, with a key by which gateways recognise the instance."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import ssl
import subprocess
import tempfile

from codebox_server.bounds import TLS_BUFFER_BYTES, TLS_HANDSHAKE_SECONDS
from codebox_server.settings import Address

# An Ed25519 key in PKCS #8, up to its 32 bytes.
_ED25519 = bytes.fromhex("302e020100300506032b657004220420")
_CERTIFICATE = ["openssl", "req", "-x509", "-key", "/dev/stdin", "-subj", "/CN=box", "-days", "36500"]


def server_context(token: str) -> ssl.SSLContext:
    """Return the context of a server whose key is derived from the token of the instance.

    Gateways derive the same key. The certificate is only its envelope.
    """
    der = _ED25519 + hmac.digest(token.encode(), b"TLS key of the box server", "sha256")
    key = f"-----BEGIN PRIVATE KEY-----\n{base64.b64encode(der).decode()}\n-----END PRIVATE KEY-----\n".encode()
    certificate = subprocess.run(
        _CERTIFICATE, input=key, stdout=subprocess.PIPE, check=True, timeout=TLS_HANDSHAKE_SECONDS
    ).stdout
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Nobody resumes a session.
    context.num_tickets = 0
    # The context reads files only.
    with tempfile.NamedTemporaryFile() as file:
        file.write(key + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def serve_tls(address: Address, context: ssl.SSLContext, socket: str) -> None:
    """Listen at an address until the process ends, and forward each connection to the Unix socket of this server."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(socket, limit=TLS_BUFFER_BYTES)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    await asyncio.start_server(
        forward,
        address.host,
        address.port,
        ssl=context,
        ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS,
        limit=TLS_BUFFER_BYTES,
    )


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy bytes with backpressure. Once one side has ended, the other receives the rest and is closed."""
    with contextlib.suppress(OSError):
        while data := await source.read(TLS_BUFFER_BYTES):
            sink.write(data)
            await sink.drain()
    sink.close()
