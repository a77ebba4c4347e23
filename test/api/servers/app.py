"""A Flask app with a page, a form, a session and a WebSocket: started as `python3 app.py PORT`."""

import sys

from flask import Flask, redirect, request, session
from flask_sock import Sock
from simple_websocket import Server
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.wrappers import Response

app = Flask(__name__)
app.secret_key = "secret of the test"
app.wsgi_app = ProxyFix(app.wsgi_app, x_prefix=1)
sock = Sock(app)


@app.get("/")
def home() -> str:
    return f"hello {session.get('name', 'stranger')}"


@app.post("/login")
def login() -> Response:
    session["name"] = request.form["name"]
    return redirect("/")


@sock.route("/shout")
def shout(ws: Server) -> None:
    while True:
        ws.send(ws.receive().upper())


app.run(host="0.0.0.0", port=int(sys.argv[1]))
