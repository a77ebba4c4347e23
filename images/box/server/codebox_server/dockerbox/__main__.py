"""`python -m codebox_server.dockerbox`: serve one box on port 8069 until nobody has used it for CODEBOX_TIMEOUT."""

from __future__ import annotations

import os
import secrets
import signal
import time
from typing import TYPE_CHECKING

from codebox_server.serving import serve

if TYPE_CHECKING:
    from codebox_server.app import BoxServerApp

PORT = 8069
_CHECK_MS = 1000
_DEFAULT_MINUTES = 15.0
# An upload is kept in memory until it is whole.
_UPLOAD_BYTES = 256 * 1024 * 1024


def main() -> None:
    """Give the box server what a gateway would, and add the port of the client."""
    runtime = os.environ.setdefault("CODEBOX_RUNTIME_DIR", "/tmp/.codebox")
    os.environ.setdefault("CODEBOX_LISTEN", f"unix:{runtime}/box.sock")
    os.environ.setdefault("CODEBOX_INSTANCE", "dockerbox")
    os.environ.setdefault("CODEBOX_NETWORK", "internet")
    minutes = float(os.environ.pop("CODEBOX_TIMEOUT", "") or _DEFAULT_MINUTES)

    def extend(app: BoxServerApp) -> None:
        # Imported late: kernels are forked from this process without the modules of the server.
        from tornado.httpserver import HTTPServer
        from tornado.ioloop import IOLoop, PeriodicCallback

        from codebox_server.dockerbox.handlers import Activity, routes

        activity = Activity()
        server = HTTPServer(routes(app.web_app.settings["codebox"], activity), max_buffer_size=_UPLOAD_BYTES)
        server.listen(PORT)

        def end_if_unused() -> None:
            if activity.open == 0 and time.monotonic() - activity.used_at > minutes * 60:
                os.kill(os.getpid(), signal.SIGTERM)

        IOLoop.current().add_callback(PeriodicCallback(end_if_unused, _CHECK_MS).start)

    serve(extend, token=lambda _environment: secrets.token_urlsafe(32))


if __name__ == "__main__":
    main()
