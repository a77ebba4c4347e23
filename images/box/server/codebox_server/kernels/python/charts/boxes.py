"""Box plots, from the statistics that were recorded when they were drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.lines import color_of, label_of
from codebox_server.kernels.python.charts.recording import NOTE
from codebox_server.kernels.python.charts.series import Column, Series


def place(note: dict[str, Any]) -> float:
    """Return the position of the box."""
    whisker = note["whisker"]
    return float((whisker.get_xdata() if note["vertical"] else whisker.get_ydata())[0])


def read(artist: Any, axes: Any, x: AxisReader, y: AxisReader) -> list[Series]:
    """Return a series per box, at its median; none for its other parts."""
    note = getattr(artist, NOTE)
    if not isinstance(note, dict):
        return []
    stat, box = note["stat"], note["box"]
    along, across = (x, y) if note["vertical"] else (y, x)
    nearest, offset = along.split(np.array([place(note)]))
    low, q1, median, q3, high = across.encode([stat[name] for name in ("whislo", "q1", "med", "q3", "whishi")])
    outliers = np.asarray(stat.get("fliers", ()) if note["fliers"] else (), dtype=float)
    fields = {
        "type": "box",
        "label": (box is not None and label_of(box)) or label_of(artist),
        "color": color_of(artist if box is None else box),
        "orientation": "vertical" if note["vertical"] else "horizontal",
        "position": along.encode(nearest)[0],
        **({"offset": float(offset[0])} if offset.any() else {}),
        "low": low,
        "q1": q1,
        "median": median,
        "q3": q3,
        "high": high,
        "mean": across.encode([stat["mean"]])[0] if note["mean"] and "mean" in stat else None,
    }
    return [Series(fields, {"outliers": Column(outliers, across)})]
