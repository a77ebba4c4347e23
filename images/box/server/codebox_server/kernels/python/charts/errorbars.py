"""Error bars: on their own, or on top of bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.container import ErrorbarContainer

from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.lines import color_of, label_of, marker_of
from codebox_server.kernels.python.charts.series import Column, Series


def parts(container: ErrorbarContainer) -> Iterator[Any]:
    """Yield every artist of the container."""
    line, caps, ranges = container.lines
    if line is not None:
        yield line
    yield from caps
    yield from ranges


def read(container: ErrorbarContainer, x: AxisReader, y: AxisReader) -> list[Series]:
    """Return points with the ends of their error bars; without points (`fmt="none"`), the middles of the bars."""
    line, _, found = container.lines
    shade = line if line is not None else found[0]
    fields: dict[str, Any] = {"type": "errorbar", "label": label_of(container), "color": color_of(shade)}
    if line is not None:
        fields.update(marker=marker_of(line), line=line.get_linestyle() in ("-", "--", "-.", ":"))
        across, along = np.asarray(line.get_xdata(orig=False), float), np.asarray(line.get_ydata(orig=False), float)
    else:
        fields.update(marker=None, line=False)
        ends = _ends(found[0])
        across, along = (ends[:, 0, 0] + ends[:, 1, 0]) / 2, (ends[:, 0, 1] + ends[:, 1, 1]) / 2
    columns = {"x": Column(across, x), "y": Column(along, y)}
    names = [name for name, there in (("x", container.has_xerr), ("y", container.has_yerr)) if there]
    for name, collection in zip(names, found, strict=True):
        low, high = _matched(collection, name, across, along)
        axis = x if name == "x" else y
        columns[f"{name}Low"], columns[f"{name}High"] = Column(low, axis), Column(high, axis)
    return [Series(fields, columns)]


def ranges(container: ErrorbarContainer, axis: AxisReader, vertical: bool, count: int) -> dict[str, Column]:
    """Return the ends of the error bars on top of `count` bars, in order."""
    if not container.lines[2]:
        return {}
    ends = _ends(container.lines[2][-1])
    if len(ends) != count:
        return {}
    at = 1 if vertical else 0
    return {"low": Column(ends[:, 0, at], axis), "high": Column(ends[:, 1, at], axis)}


def _matched(collection: Any, name: str, across: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return low and high for each point: with `errorevery` only some points have them."""
    ends = _ends(collection)
    at = 0 if name == "x" else 1
    if len(ends) == len(across):
        return ends[:, 0, at], ends[:, 1, at]
    low, high = np.full(len(across), np.nan), np.full(len(across), np.nan)
    other = along if name == "x" else across
    rows = {value: row for row, value in reversed(list(enumerate(other.tolist())))}
    for segment in ends:
        row = rows.get(float(segment[0, 1 - at]))
        if row is not None:
            low[row], high[row] = segment[0, at], segment[1, at]
    return low, high


def _ends(collection: Any) -> np.ndarray:
    """Return both ends of each bar: shape (n, 2, 2). A bar without length because of a missing value keeps its row."""
    rows = []
    for path in collection.get_paths():
        points = np.asarray(path.vertices, dtype=float)
        rows.append(points[:2] if len(points) >= 2 else np.full((2, 2), np.nan))
    return np.array(rows).reshape(-1, 2, 2)
