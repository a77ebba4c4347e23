"""An app whose page uses browser features: started as `python3 page.py PORT`."""

import asyncio
import sys

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

PAGE = """<!doctype html><title>app</title><link rel="stylesheet" href="style.css"><body>
<script>
  const seen = { origin: self.origin, url: location.href };
  try { seen.cookie = document.cookie; } catch (error) { seen.cookie = error.name; }
  fetch('/v1/templates').then((response) => { seen.api = response.status; }, (error) => { seen.api = error.name; });
</script>
<script type="module" src="main.js"></script>
<form method="post" action="form"><input name="name" value="Ada"><button>Send</button></form>"""
MAIN = """const { text } = await (await fetch('data')).json();
await navigator.serviceWorker.register('worker.js');
const socket = new WebSocket(new URL('socket', location.href.replace('http', 'ws')));
socket.onmessage = ({ data }) => document.body.append(`${text} ${data}`);"""
FILES = {
    "": ("text/html", PAGE),
    "main.js": ("text/javascript", MAIN),
    "worker.js": ("text/javascript", ""),
    "style.css": ("text/css", "body { color: rgb(1, 2, 3) }"),
    "data": ("application/json", '{"text": "hello"}'),
}


class File(RequestHandler):
    def get(self, name: str) -> None:
        kind, text = FILES[name]
        self.set_header("Content-Type", kind)
        self.set_header("Set-Cookie", "visited=yes; Path=/")
        self.finish(text)


class Form(RequestHandler):
    def post(self) -> None:
        self.finish(f"posted {self.get_body_argument('name')}, visited {self.get_cookie('visited')}")


class Socket(WebSocketHandler):
    def open(self) -> None:
        # Tornado has accepted the connection, so its Origin equals its Host.
        self.write_message("from the socket")


async def main() -> None:
    routes = [("/form", Form), ("/socket", Socket), ("/(.*)", File)]
    Application(routes).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
