"""What a Python kernel and the first lines of most programs need, loaded once before any kernel is forked."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator

_INLINE = "module://matplotlib_inline.backend_inline"

# What a kernel loads from its start to its end; found by comparing `sys.modules` before and after.
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
    "IPython.core.oinspect",
    "IPython.utils.wildcard",
    "asyncio.selector_events",
    "faulthandler",
    "pdb",
    "psutil",
    "tornado.platform.asyncio",
    "zmq.eventloop.zmqstream",
)

# `matplotlib_inline` is missing on purpose: loading it hooks into the shell, which is not there yet.
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
    # Behind matplotlib, which it needs.
    "codebox_server.kernels.python.charts.figure",
)


def load_kernel() -> None:
    """Load what any kernel needs."""
    for name in KERNEL:
        importlib.import_module(name)


def steps() -> Iterator[Callable[[], None]]:
    """The rest in small steps, so that a request never waits for all of it. A library that is not there is left out."""
    # As a kernel sets it before it runs code: matplotlib reads it as it loads.
    os.environ.setdefault("MPLBACKEND", _INLINE)
    for name in LIBRARIES:
        yield lambda name=name: _load(name)
    yield _draw


def _load(name: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    except Exception:
        # A template without it, or a broken one: whoever imports it in a kernel gets the error.
        return


def _draw() -> None:
    """Draw a figure that nobody sees: fonts, tickers and the PNG writer are ready then."""
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
