"""Individual patches: outlines of histograms, and spans across the Axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Patch, Polygon, Rectangle, StepPatch

from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.lines import style
from codebox_server.kernels.python.charts.recording import NOTE
from codebox_server.kernels.python.charts.series import Column, Series


def read(patch: Patch, axes: Any, x: AxisReader, y: AxisReader) -> list[Series] | None:
    """Return a histogram of `stairs` or `hist(histtype="step")`, or a span; None for any other shape."""
    if isinstance(patch, StepPatch):
        values, edges, baseline = patch.get_data()
        return [_outline(patch, np.asarray(edges), np.asarray(values), baseline, patch.orientation, x, y)]
    if isinstance(patch, Polygon) and isinstance(note := getattr(patch, NOTE, None), tuple):
        edges, top, orientation = note
        return [_outline(patch, np.asarray(edges), np.asarray(top), None, orientation, x, y)]
    if isinstance(patch, Rectangle) and not patch.get_width() and not patch.get_height():
        # An entry of a legend.
        return []
    if isinstance(patch, Rectangle):
        return _span(patch, axes, x, y)
    return None


def _outline(
    patch: Patch, edges: np.ndarray, values: np.ndarray, base: Any, orientation: str, x: AxisReader, y: AxisReader
) -> Series:
    along, across = (x, y) if orientation == "vertical" else (y, x)
    bottom = np.broadcast_to(np.asarray(0 if base is None else base, dtype=float), values.shape)
    fields = {"type": "histogram", **style(patch), "orientation": orientation, "edges": along.encode(edges)}
    height = np.asarray(values, float) - bottom
    return Series(fields, {"value": Column(height, across), "base": Column(bottom, across)})


def _span(patch: Rectangle, axes: Any, x: AxisReader, y: AxisReader) -> list[Series] | None:
    in_x, in_y = patch.get_transform().contains_branch_seperately(axes.transData)
    if in_x == in_y:
        return None
    start, length = (patch.get_x(), patch.get_width()) if in_x else (patch.get_y(), patch.get_height())
    low, high = (x if in_x else y).encode([start, start + length])
    orientation = "vertical" if in_x else "horizontal"
    return [Series({"type": "span", **style(patch), "orientation": orientation, "from": low, "to": high})]
