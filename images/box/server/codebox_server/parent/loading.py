"""Loads all that box servers and kernels import, before anything is forked."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import sysconfig
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from codebox_server.forks import preload
from codebox_server.forks.wire import startup_variables
from codebox_server.settings import prepare, read_settings
from codebox_server.unwanted import ignore_unwanted

if TYPE_CHECKING:
    from codebox_server.app import BoxServerApp

# What Jupyter Server imports only when its application is made.
_SERVER = (
    "codebox_server.app",
    "codebox_server.jupyter.terminals",
    "codebox_server.serving",
    "jinja2.ext",
    "jupyter_server.kernelspecs.handlers",
    "jupyter_server.services.api.handlers",
    "jupyter_server.services.config.handlers",
    "jupyter_server.services.contents.handlers",
    "jupyter_server.services.kernels.handlers",
    "jupyter_server.services.kernelspecs.handlers",
    "jupyter_server.services.sessions.handlers",
)


@dataclass(frozen=True)
class Loaded:
    """`startup` are the variables that counted for the kernels' libraries. `server` are the modules of the server
    alone: a kernel must find its own files first where they have the same name. `app` is the application that the
    server of a box completes.
    """

    startup: dict[str, str]
    server: dict[str, ModuleType]
    app: BoxServerApp

    def restore(self) -> None:
        """Make the modules of the server importable in this process."""
        sys.modules.update(self.server)


def load() -> Loaded:
    """Load everything. The paths in the environment have to be those that boxes have.

    Garbage is collected once in the end, and then in box servers and kernels only.
    """
    # Collections while modules are loaded find nothing, in a tenth of the time that it takes.
    gc.disable()
    # Jupyter and matplotlib read their folders on import. No box has this id.
    settings = read_settings({**os.environ, "CODEBOX_INSTANCE": "parent"})
    prepare(settings)
    startup = startup_variables(dict(os.environ))
    preload.load_kernel()
    for step in preload.steps():
        step()
    kernel = set(sys.modules)
    ignore_unwanted()
    for name in _SERVER:
        importlib.import_module(name)
    from codebox_server.app import make_app

    app = make_app(settings)
    server = {name: sys.modules[name] for name in _server_alone(set(sys.modules) - kernel)}
    for name in server:
        del sys.modules[name]
    preload.settle()
    return Loaded(startup, server, app)


def _server_alone(names: set[str]) -> list[str]:
    """Return the modules that can be loaded a second time: no parts of packages with a compiled one, none of Python."""
    compiled = {_top(name) for name in names if _file(name).endswith(".so")}
    packages = sysconfig.get_path("purelib")
    return [
        name
        for name in names
        if sys.modules[name] is None
        or (_top(name) not in compiled and (_file(name).startswith(packages) or _top(name) == "codebox_server"))
    ]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _file(name: str) -> str:
    return getattr(sys.modules[name], "__file__", None) or ""
