"""A WebSocket server on Tornado: started as `python3 sockets.py PORT`."""

import asyncio
import json
import sys

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler


class Echo(WebSocketHandler):
    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return "chat" if "chat" in subprotocols else None

    def get_compression_options(self) -> dict[str, object]:
        return {}

    def open(self) -> None:
        headers = self.request.headers
        received = {
            "path": self.request.uri,
            "authorization": headers.get("Authorization"),
            "key": headers.get("X-API-Key"),
        }
        self.write_message(json.dumps(received))

    async def on_message(self, message: str | bytes) -> None:
        if message == "close":
            self.close(4321, "because")
        else:
            await self.write_message(message, binary=isinstance(message, bytes))


class Refuse(RequestHandler):
    def get(self) -> None:
        self.set_status(403)
        self.finish("not here")


class Home(RequestHandler):
    def get(self) -> None:
        self.finish("home")


class Endless(RequestHandler):
    async def get(self) -> None:
        while True:
            self.write("tick\n")
            await self.flush()
            await asyncio.sleep(0.5)


async def main() -> None:
    routes = [("/", Home), ("/echo", Echo), ("/refused", Refuse), ("/endless", Endless)]
    Application(routes, websocket_max_message_size=1 << 26).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
