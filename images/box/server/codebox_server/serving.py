"""Serves one box until SIGTERM, with the environment of this process as its settings."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from codebox_server.forks.ready import ReadyForkServer, fork_early, may_fork_early
from codebox_server.settings import Settings, prepare, read_settings, take_token
from codebox_server.system.isolation import wait_until_blocked
from codebox_server.tls import serve_tls, server_context
from codebox_server.unwanted import ignore_unwanted

if TYPE_CHECKING:
    from codebox_server.app import BoxServerApp


def serve(
    extend: Callable[[BoxServerApp], None] = lambda _app: None,
    forks: ReadyForkServer | None = None,
    made: BoxServerApp | None = None,
    token: Callable[[MutableMapping[str, str]], str] = take_token,
) -> None:
    """Read the environment, create the folders, serve. Raises SystemExit at the end.

    `extend` may add to the application before it starts; `forks` is a fork server that the box may use, and without one
    this process forks its own, if it may. `made`: see `create_app`. `token` takes the token out of the environment.
    """
    settings = read_settings(os.environ)
    prepare(settings)
    gc.disable()
    if forks is None and may_fork_early(settings):
        # Before there is anything that kernels must not share: the token, threads, and the modules of the server.
        forks = fork_early()
    # Code of the box inherits this environment and must not be able to authenticate as the gateway.
    secret = token(os.environ)
    isolated = _isolation(settings)
    tls = server_context(secret) if settings.tls else None
    ignore_unwanted()
    # Imported late: Jupyter reads its folders from the environment on import.
    from codebox_server.app import create_app

    app = create_app(settings, secret, forks, made)
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
