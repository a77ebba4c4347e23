"""A server of the standard library that returns each request as JSON: started as `python3 reflect.py PORT [HOST]`."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6


class Reflect(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reflect(self) -> None:
        body = self.body()
        received = {
            "method": self.command,
            # The raw path: `self.path` is normalized.
            "path": self.requestline.split(" ")[1],
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": body.decode("latin1") if len(body) < 10_000 else len(body),
        }
        if self.path.startswith("/status/"):
            return self.respond(int(self.path.split("/")[2]), b"", [("ETag", '"x"')])
        if self.path == "/events":
            return self.events()
        if self.path == "/echo":
            return self.respond(200, body, [("Content-Type", "application/octet-stream")])
        if self.path.startswith("/headers"):
            return self.respond(200, b"headers", json.loads(body))
        if self.path.startswith("/bytes/"):
            return self.many(int(self.path.split("/")[2]))
        return self.respond(200, json.dumps(received).encode(), [("Content-Type", "application/json")])

    def many(self, count: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(count))
        self.end_headers()
        block = bytes(range(256)) * 4096
        while count > 0:
            self.wfile.write(block[:count])
            count -= len(block)

    def events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            data = f"data: {number} {time.time()}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(0.5)
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_PROPFIND = reflect

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 200
    daemon_threads = True


class Server6(Server):
    address_family = AF_INET6


host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
(Server6 if ":" in host else Server)((host, int(sys.argv[1])), Reflect).serve_forever()
