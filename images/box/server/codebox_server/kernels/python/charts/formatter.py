"""The hook into one shell: a formatter beside those for text, HTML and PNG, which knows figures."""

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
    """Formats as a chart; any object can bring one of its own by `_repr_codebox_chart_`."""

    format_type = Unicode(CHART_MIME)
    print_method = ObjectName("_repr_codebox_chart_")
    _return_type = dict

    def lookup_by_type(self, typ: Any) -> Callable[[Any], dict[str, Any] | None]:
        """As stock; but figures are not in its lists, from which choosing their image formats removes them."""
        module = sys.modules.get("matplotlib.figure")
        if module is not None and isinstance(typ, type) and issubclass(typ, getattr(module, "Figure", ())):
            return _chart
        return super().lookup_by_type(typ)


def install(shell: InteractiveShell) -> None:
    """Let the shell show figures as data too. matplotlib is not imported for it."""
    formatter = ChartFormatter(parent=shell.display_formatter)
    # Behind the PNG, whose drawing settles limits and ticks.
    shell.display_formatter.formatters[CHART_MIME] = formatter
    recording.begin()


def _chart(figure: Any) -> dict[str, Any] | None:
    try:
        from codebox_server.kernels.python.charts.figure import read_figure

        return read_figure(figure)
    except Exception:
        # The PNG is what the user asked for: whatever is odd about a figure, it must not be lost for its data.
        _log.debug("a figure could not be read as data", exc_info=True)
        return None
