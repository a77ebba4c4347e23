"""A whole figure: its axes in the order of creation, within the limits of one chart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from matplotlib.axes._secondary_axes import SecondaryAxis

from codebox_server.kernels.python.charts.axes import AxesReader
from codebox_server.kernels.python.charts.series import CHART_BYTES, Series, text, thin

_VERSION = 1
_AXES = 100


def read_figure(figure: Any) -> dict[str, Any]:
    """Return the figure in the form of `services/contract/runs/charts.ts`."""
    shown = [axes for axes in _all_axes(figure.axes) if axes.get_visible() and not hasattr(axes, "_colorbar")]
    readers = [AxesReader(axes) for axes in shown[:_AXES]]
    everything: list[Series] = [series for reader in readers for series in reader.series]
    left_out = thin(everything)
    kept = {id(series) for series in everything}
    width, height = figure.get_size_inches() * figure.dpi
    chart: dict[str, Any] = {
        "version": _VERSION,
        "title": text(figure.get_suptitle()),
        "width": round(float(width)),
        "height": round(float(height)),
        "axes": [reader.to_json(shown, kept) for reader in readers],
    }
    left_out["series"] += _fit(chart)
    if any(left_out.values()):
        chart["truncated"] = left_out
    return chart


def _all_axes(found: list[Any]) -> Iterator[Any]:
    """Yield axes together with their insets."""
    for axes in found:
        yield axes
        # A secondary scale along an edge is not a plot of its own.
        yield from _all_axes([child for child in axes.child_axes if not isinstance(child, SecondaryAxis)])


def _fit(chart: dict[str, Any]) -> int:
    """Drop series of a chart whose texts alone make it too large; return how many."""
    parts = sum(len(axes["series"]) + sum(len(axes[name].get("ticks", ())) for name in "xy") for axes in chart["axes"])
    # Points have been counted already: only a chart with many parts can still be too large, and measuring takes time.
    if parts < 200:
        return 0
    sizes = [(len(json.dumps(axes)), axes) for axes in chart["axes"]]
    total, dropped = sum(size for size, _ in sizes), 0
    for size, axes in sorted(sizes, key=lambda entry: -entry[0]):
        if total <= CHART_BYTES:
            break
        total -= size
        dropped += len(axes["series"])
        axes["series"] = []
        for name in "xy":
            axes[name].pop("ticks", None)
    return dropped
