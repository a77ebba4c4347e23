"""Loads the modules that kernels and the first lines of most programs import, once before any kernel is forked."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import mimetypes
import os
import ssl
import sysconfig
import warnings
from collections.abc import Callable, Iterator

_INLINE = "module://matplotlib_inline.backend_inline"

# Everything that a kernel imports from its start to its end; found by comparing `sys.modules` before and after.
KERNEL = (
    "codebox_server.kernels.app",
    "codebox_server.kernels.outstream",
    "codebox_server.kernels.packing",
    "codebox_server.kernels.python.extension",
    "codebox_server.kernels.python.kernel",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.utils.wildcard",
    "asyncio.selector_events",
    "faulthandler",
    "pdb",
    "psutil",
    "tornado.platform.asyncio",
    "zmq.eventloop.zmqstream",
)

# `matplotlib_inline` is missing on purpose: importing it hooks into the shell of the process, which has none yet.
LIBRARIES = (
    "numpy",
    "numpy.random",
    "pandas",
    "matplotlib",
    "matplotlib.font_manager",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "IPython.core.pylabtools",
    "PIL.PngImagePlugin",
    # After matplotlib, which it needs.
    "codebox_server.kernels.python.charts.figure",
)

# Packages with compiled modules that a kernel has too if it comes from a parent, which has loaded them for box servers.
FOR_THE_SERVER = ("markupsafe", "rpds", "yaml")


def load_kernel() -> None:
    """Load what every kernel needs."""
    for name in KERNEL:
        importlib.import_module(name)
    # What these make at their first use would otherwise be made in each kernel.
    sysconfig.get_config_vars()
    _load_theme()
    ssl.RAND_bytes(1)
    mimetypes.init()


def _load_theme() -> None:
    from IPython.utils.PyColorize import theme_table

    # The table reads a theme when it is used first; this is the one of kernels.
    _ = theme_table["neutral"]


def settle() -> None:
    """Tidy up once everything is loaded. Whatever a fork would tidy up, it would copy before."""
    gc.collect()
    # Free memory is joined here, and not by the first fork that needs some.
    gc.freeze()


def steps() -> Iterator[Callable[[], None]]:
    """Yield the rest in small steps, so that a request never waits for all of it. A missing library is skipped. The
    last one tidies up.
    """
    # The value that a kernel sets before it runs code: matplotlib reads it on import.
    os.environ.setdefault("MPLBACKEND", _INLINE)
    for name in LIBRARIES:
        yield functools.partial(_load, name)
    yield _draw
    yield _make_shell
    yield settle


def _load(name: str) -> None:
    try:
        with warnings.catch_warnings(), _cleaning_each_docstring_once():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    except Exception:
        # The template lacks it, or it is broken: an import in a kernel raises the error.
        return


@contextlib.contextmanager
def _cleaning_each_docstring_once() -> Iterator[None]:
    """matplotlib cleans the docstrings of inherited methods again for each of its classes, a sixth of its import."""
    original, inspect.cleandoc = inspect.cleandoc, functools.cache(inspect.cleandoc)
    try:
        yield
    finally:
        inspect.cleandoc = original


def _make_shell() -> None:
    # Imported late, with all that a kernel needs.
    from codebox_server.kernels.app import config_of
    from codebox_server.kernels.python import ready_shell

    # Without it, each kernel makes its own.
    with contextlib.suppress(Exception):
        ready_shell.make(config_of("python"))


def _draw() -> None:
    """Draw an invisible figure, so that fonts, tickers and the PNG writer are ready."""
    import io

    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label="a")
    axes.set_title("a")
    axes.legend()
    FigureCanvasAgg(figure).print_figure(io.BytesIO(), format="png", bbox_inches="tight")
