"""`python -m codebox_server`: serve one box until SIGTERM."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from codebox_server.settings import Settings, prepare, read_settings
from codebox_server.system.isolation import wait_until_blocked
from codebox_server.tls import serve_tls, server_context

if TYPE_CHECKING:
    from codebox_server.app import BoxServerApp

# Optional dependencies of jsonschema for rare formats. Nothing here uses them, and compiling the grammar of the first
# one takes longer than everything else at start.
_UNWANTED = ("rfc3987_syntax", "rfc3986_validator", "isoduration")


def main() -> None:
    """Serve a box for its gateway."""
    serve(lambda _app: None)


def serve(extend: Callable[[BoxServerApp], None]) -> None:
    """Read the environment, create the folders, serve. `extend` may add to the application before it starts."""
    settings = read_settings(os.environ)
    # Code of the box inherits this environment and must not be able to authenticate as the gateway.
    del os.environ["CODEBOX_TOKEN"]
    isolated = _isolation(settings)
    prepare(settings)
    tls = server_context(settings.token) if settings.tls else None
    for name in _UNWANTED:
        sys.modules[name] = None  # type: ignore[assignment]
    gc.disable()
    # Imported late: Jupyter reads its folders from the environment on import.
    from codebox_server.app import create_app

    app = create_app(settings)
    extend(app)
    # No code runs in the box before the event loop does.
    if isolated is not None:
        isolated.result()
    if settings.tls is not None and tls is not None:
        app.io_loop.asyncio_loop.run_until_complete(serve_tls(settings.tls, tls, settings.socket))  # type: ignore[attr-defined]
    # Objects that exist now live as long as the process: later collections need not visit them.
    gc.freeze()
    gc.enable()
    app.start()
    # Not a success: a kubelet discards the reason of an eviction if the pod then succeeds.
    sys.exit(128 + signal.SIGTERM)


def _isolation(settings: Settings) -> Future[None] | None:
    """Begin to wait for the network policy, which takes as long as the imports do."""
    blocked = settings.await_blocked
    if blocked is None:
        return None
    return ThreadPoolExecutor(1).submit(wait_until_blocked, blocked.host, blocked.port)


if __name__ == "__main__":
    main()
