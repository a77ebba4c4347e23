"""A server that violates HTTP in one way per path: started as `python3 hostile.py PORT`."""

import itertools
import socket
import sys
import threading
import time
from collections.abc import Iterator

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = b"Content-Length: 0\r\n\r\n"


def endless(part: bytes, pause: float = 0) -> Iterator[bytes]:
    while True:
        yield part
        time.sleep(pause)


RESPONSES = {
    b"/silent": lambda: endless(b"", 0.1),
    b"/slow-head": lambda: itertools.chain([OK + b"X: "], endless(b"x", 0.1)),
    b"/endless-headers": lambda: itertools.chain([OK], endless(b"X-Header: " + b"x" * 1000 + b"\r\n")),
    b"/endless-header": lambda: itertools.chain([OK + b"X: "], endless(b"x" * 65536)),
    b"/endless-status": lambda: itertools.chain([b"HTTP/1.1 200 "], endless(b"x" * 65536)),
    b"/many-headers": lambda: [OK, b"a:b\r\n" * 2000, EMPTY],
    b"/provisional": lambda: endless(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    b"/slow-provisional": lambda: endless(b"HTTP/1.1 102 Processing\r\n\r\n", 0.2),
    b"/unasked-upgrade": lambda: [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    ],
    b"/garbage": lambda: [b"\0\1\2\3 this is not HTTP at all\r\n\r\n"],
    b"/close": list,
    b"/half-head": lambda: [OK + b"X-Half"],
    b"/length-and-chunks": lambda: [
        OK,
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    b"/two-lengths": lambda: [
        OK,
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ],
    b"/bad-length": lambda: [OK, b"Content-Length: -5\r\n\r\n"],
    b"/unknown-coding": lambda: [
        OK,
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ],
    b"/control-byte": lambda: [OK, b"X-Bad: a\x01b\r\n", EMPTY],
    b"/lone-cr": lambda: [OK, b"X-Bad: a\rInjected: b\r\n", EMPTY],
    b"/nul": lambda: [OK, b"X-Bad: a\0b\r\n", EMPTY],
    b"/status-0": lambda: [b"HTTP/1.1 000 Zero\r\n", EMPTY],
    b"/latin1": lambda: [OK, b"X-Name: \xfcber\r\n", EMPTY],
    b"/redirect": lambda: [
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\n",
        EMPTY,
    ],
    b"/short": lambda: [OK, b"Content-Length: 100\r\n\r\nonly this"],
    b"/endless-trailers": lambda: itertools.chain(
        [OK, b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"],
        endless(b"X-Trailer: " + b"x" * 1000 + b"\r\n"),
    ),
    b"/endless-extension": lambda: itertools.chain(
        [OK, b"Transfer-Encoding: chunked\r\n\r\n1;"], endless(b"x" * 65536)
    ),
    b"/flood": lambda: itertools.chain([OK, b"\r\n"], endless(b"x" * 65536)),
    b"/two-responses": lambda: [OK + b"Content-Length: 5\r\n\r\nfirst" + OK + b"Content-Length: 6\r\n\r\nsecond"],
    b"/after-204": lambda: [b"HTTP/1.1 204 No Content\r\n\r\n" + OK + b"Content-Length: 6\r\n\r\nsecond"],
    b"/alive": lambda: [OK, b"Content-Length: 5\r\n\r\nalive"],
}


def serve(connection: socket.socket) -> None:
    with connection:
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            path = head.split(b" ", 2)[1]
            try:
                for part in RESPONSES[path]():
                    connection.sendall(part)
            except OSError:
                return
            if path not in (b"/alive", b"/two-responses", b"/after-204"):
                return


with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200) as server:
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
