"""The hook into a shell: a formatter for figures in addition to those for text, HTML and PNG."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from traitlets import ObjectName, Unicode

from codebox_server.kernels.python.charts import recording

CHART_MIME = "application/vnd.codebox.chart+json"

_log = logging.getLogger(__name__)


class ChartFormatter(BaseFormatter):
    """Formats as a chart; any object can provide its own with `_repr_codebox_chart_`."""

    format_type = Unicode(CHART_MIME)
    print_method = ObjectName("_repr_codebox_chart_")
    _return_type = dict

    def lookup_by_type(self, typ: Any) -> Callable[[Any], dict[str, Any] | None]:
        """As in stock IPython, but figures need no registration, as selecting image formats would remove it."""
        module = sys.modules.get("matplotlib.figure")
        if module is not None and isinstance(typ, type) and issubclass(typ, getattr(module, "Figure", ())):
            return _chart
        return super().lookup_by_type(typ)


def install(shell: InteractiveShell) -> None:
    """Let the shell show figures as data too, without importing matplotlib."""
    formatter = ChartFormatter(parent=shell.display_formatter)
    # After the PNG, as drawing it determines limits and ticks.
    assert shell.display_formatter is not None
    shell.display_formatter.formatters[CHART_MIME] = formatter
    recording.begin()


def _chart(figure: Any) -> dict[str, Any] | None:
    try:
        from codebox_server.kernels.python.charts.figure import read_figure

        return read_figure(figure)
    except Exception:
        # The user requested the PNG, which must not be lost because the figure cannot be read as data.
        _log.debug("a figure could not be read as data", exc_info=True)
        return None
