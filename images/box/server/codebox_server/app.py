"""The Jupyter Server application of a box: one address, one token, and only the services that a box needs."""

from __future__ import annotations

import asyncio
import datetime
import os
from contextlib import suppress
from typing import Any

from jupyter_events import EventLogger
from jupyter_server.auth.identity import IdentityProvider
from jupyter_server.serverapp import ServerApp
from traitlets import default
from traitlets.config import Config

from codebox_server.bounds import CLOSE_SECONDS
from codebox_server.box import create_box
from codebox_server.forks.ready import ReadyForkServer
from codebox_server.http.gate import gate
from codebox_server.http.routes import routes
from codebox_server.http.run_socket import RunSocketHandler
from codebox_server.jupyter.managers import BoxMappingKernelManager
from codebox_server.jupyter.specs import BoxKernelSpecManager
from codebox_server.jupyter.websocket import BoundedWebsocketConnection
from codebox_server.settings import Settings
from codebox_server.system.recording import RecordsItsLevel


class GatewayIdentityProvider(IdentityProvider):
    """Accepts every request that has passed the gate, as it comes from the gateway."""

    token = ""

    @property
    def auth_enabled(self) -> bool:
        """There is no login."""
        return False

    def validate_security(self, app: Any, ssl_options: dict[str, Any] | None = None) -> None:
        """Warns of nothing: the gate refuses requests without the token."""


class BoxServerApp(RecordsItsLevel, ServerApp):
    """Stock Jupyter Server without its info files and its banner, with our routes in front."""

    # Only the services that clients need for kernels and files: others cost start-up time and widen the attack surface.
    default_services = ("api", "config", "contents", "kernels", "kernelspecs", "sessions")  # type: ignore[assignment]
    # What it was made with, and the arguments of our handlers, which are complete before the first request.
    made_with: Config
    arguments: dict[str, Any]

    def write_server_info_file(self) -> None:
        """Do nothing: nobody looks for this server by file."""

    def remove_server_info_file(self) -> None:
        """Do nothing: no file was written."""

    def parse_command_line(self, argv: Any = None) -> None:
        """Do nothing: there are no arguments, and creating a parser for them takes longer than most of the start."""

    def migrate_config(self) -> None:
        """Do nothing: the home belongs to code of the box."""

    def init_event_logger(self) -> None:
        """Make one that knows no event: nobody listens, and reading the schemas takes long."""
        self.event_logger = EventLogger(parent=self)

    def load_config_file(self, suppress_errors: bool = True) -> None:  # type: ignore[override]
        """Do nothing: code of the box must not configure the server by a file in its home."""

    @default("cookie_secret")
    def _default_cookie_secret(self) -> bytes:
        # There are no logins, so nothing needs to outlive this process in a file.
        return os.urandom(32)

    def init_ioloop(self) -> None:
        """Do nothing: see `begin`."""

    def init_logging(self) -> None:
        """Do nothing: see `begin`."""

    def init_resources(self) -> None:
        """Do nothing: see `begin`."""

    def init_signal(self) -> None:
        """Do nothing: see `begin`."""

    def begin(self) -> None:
        """Do the part of the initialization that changes this process or belongs to it alone.

        Everything else may have been done in a process that this one was forked from.
        """
        super().init_ioloop()
        super().init_logging()
        super().init_resources()
        super().init_signal()
        self.web_app.settings["cookie_secret"] = os.urandom(32)
        self.web_app.settings["started"] = datetime.datetime.now(datetime.UTC)
        self.init_httpserver()

    async def cleanup_kernels(self) -> None:
        """Cut the streams first: the runs are lost with the box. Otherwise they would report that their context was
        deleted.
        """
        RunSocketHandler.close_all()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.http_server.close_all_connections(), CLOSE_SECONDS)
        await super().cleanup_kernels()


def _config(settings: Settings) -> Config:
    config = Config()
    server = config.ServerApp
    server.sock = settings.socket
    # The gateway may run as another user; the folder of the socket and the token are the boundary.
    server.sock_mode = "0666"
    server.root_dir = str(settings.data)
    server.allow_root = True
    server.open_browser = False
    server.disable_check_xsrf = True
    server.allow_unauthenticated_access = True
    server.kernel_manager_class = BoxMappingKernelManager
    server.kernel_spec_manager_class = BoxKernelSpecManager
    server.kernel_websocket_connection_class = BoundedWebsocketConnection
    config.BoxKernelSpecManager.image_kernels = str(settings.kernels)
    server.identity_provider_class = GatewayIdentityProvider
    server.log_level = settings.log_level
    server.jpserver_extensions = {"codebox_server.jupyter.terminals": True}
    server.terminado_settings = {"shell_command": ["bash"]}
    server.websocket_compression_options = None
    # A request log would contain text chosen by code of the box or by a caller.
    server.tornado_settings = {"log_function": _log_nothing}
    # Messages must not accumulate in a box while nobody is connected.
    config.MappingKernelManager.buffer_offline_messages = False
    config.MappingKernelManager.default_kernel_name = "python"
    config.ZMQChannelsWebsocketConnection.limit_rate = False
    config.FileContentsManager.delete_to_trash = False
    config.ContentsManager.allow_hidden = True
    return config


def _log_nothing(_handler: Any) -> None:
    return


def make_app(settings: Settings) -> BoxServerApp:
    """Build what is equal in all boxes with such settings. It opens no file and knows no secret."""
    app = BoxServerApp(config=_config(settings))
    # Another one, as the application may change its own.
    app.made_with = _config(settings)
    # Not empty: tornado would replace it.
    app.arguments = {"box": None}
    app.no_browser_open_file = True
    app.record_http_request_metrics = False
    app.initialize(argv=[], find_extensions=False, new_httpserver=False)
    router = app.web_app.wildcard_router
    router.rules[:0] = [router.process_rule(rule) for rule in routes(app.arguments)]
    return app


def create_app(
    settings: Settings, token: str, forks: ReadyForkServer | None = None, made: BoxServerApp | None = None
) -> BoxServerApp:
    """Complete an application, which listens once its event loop runs (`start`). Every request has to carry the token.

    `made` is one that `make_app` has built, in this process or before it was forked.
    """
    app = made if made is not None and made.made_with == _config(settings) else make_app(settings)
    app.begin()
    manager: Any = app.kernel_manager
    box = create_box(settings, manager, forks)
    app.web_app.settings["codebox"] = app.arguments["box"] = box
    # In front of every route, including those of extensions.
    router = app.web_app.default_router
    router.rules.insert(0, router.process_rule(gate(token)))
    os.chdir(settings.data)
    # Run after the server listens: nobody waits for these.
    app.io_loop.add_callback(box.start_forks)
    app.io_loop.add_callback(box.crowd.watch)
    return app
