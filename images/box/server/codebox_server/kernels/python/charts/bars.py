"""Bars, and histograms, which are bars over intervals."""

from __future__ import annotations

import numpy as np
from matplotlib.container import BarContainer

from codebox_server.kernels.python.charts import errorbars
from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.lines import color_of, hex_of, label_of, style
from codebox_server.kernels.python.charts.recording import NOTE
from codebox_server.kernels.python.charts.series import Column, Series

_TOUCHING = 1e-6


def is_vertical(container: BarContainer) -> bool:
    """Whether the bars are vertical; known from their creation, never guessed from their shape."""
    return container.orientation != "horizontal"


def places(container: BarContainer) -> np.ndarray:
    """Return the middle of each bar."""
    return _measure(container)[0]


def is_histogram(container: BarContainer) -> bool:
    """Whether `hist` made it, or the bars touch and are not at integers (seaborn draws its histograms like this)."""
    if hasattr(container, NOTE):
        return True
    middle, width, _, _ = _measure(container)
    if len(middle) < 3 or not np.isfinite(middle).all() or (middle == np.rint(middle)).all():
        return False
    gaps = np.diff(middle) - (width[1:] + width[:-1]) / 2
    return bool((np.abs(gaps) <= _TOUCHING * np.abs(width).max()).all())


def read(container: BarContainer, x: AxisReader, y: AxisReader) -> list[Series]:
    """Return one series per call of `bar` or `barh`, or per data set of `hist`."""
    middle, width, base, value = _measure(container)
    along, across = (x, y) if is_vertical(container) else (y, x)
    first = container.patches[0]
    fields = {**style(first), "label": label_of(container) or label_of(first)}
    fields["orientation"] = "vertical" if is_vertical(container) else "horizontal"
    if is_histogram(container):
        edges = getattr(container, NOTE, None)
        if edges is None:
            edges = np.append(middle - width / 2, middle[-1] + width[-1] / 2)
        # Bins are few, and there is one more edge than bars: they are never thinned.
        columns = {"value": Column(value, across), "base": Column(base, across)}
        return [Series({"type": "histogram", **fields, "edges": along.encode(edges)}, columns)]
    nearest, offset = along.split(middle)
    columns = {
        "position": Column(nearest, along),
        "value": Column(value),
        "base": Column(base, across),
        "width": Column(width),
    }
    if offset.any():
        columns["offset"] = Column(offset)
    shades = [hex_of(patch.get_facecolor()) or color_of(patch) for patch in container.patches]
    if len(set(shades)) > 1:
        columns["colors"] = Column(np.array(shades, dtype=object))
    if container.errorbar is not None:
        columns.update(errorbars.ranges(container.errorbar, across, is_vertical(container), len(middle)))
    return [Series({"type": "bar", **fields}, columns)]


def arrangement(series: list[Series]) -> str | None:
    """How several series of bars are arranged: stacked, grouped or overlaid; single for one, None for none."""
    found = [one for one in series if one.fields["type"] == "bar"]
    if len(found) < 2:
        return "single" if found else None
    if any(_stands_on_another(one, found) for one in found):
        return "stacked"
    middles = [_middles(one) for one in found]
    apart = all(
        not np.intersect1d(np.round(one, 9), np.round(other, 9)).size
        for at, one in enumerate(middles)
        for other in middles[at + 1 :]
    )
    return "grouped" if apart else "overlaid"


def _middles(series: Series) -> np.ndarray:
    middles = series.columns["position"].values
    return middles + series.columns["offset"].values if "offset" in series.columns else middles


def _stands_on_another(series: Series, others: list[Series]) -> bool:
    base, middles = series.columns["base"].values, _middles(series)
    for other in others:
        if other is series or len(other.columns["base"].values) != len(base):
            continue
        tops = other.columns["base"].values + other.columns["value"].values
        same = np.allclose(middles, _middles(other), equal_nan=True) and np.allclose(base, tops, equal_nan=True)
        if same and np.nan_to_num(base).any():
            return True
    return False


def _measure(container: BarContainer) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return middle, width, base and value of each bar."""
    rects = [(bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()) for bar in container.patches]
    left, bottom, width, height = np.array(rects, dtype=float).reshape(-1, 4).T
    if is_vertical(container):
        return _middle(left, width), _short(width), bottom, height
    return _middle(bottom, height), _short(height), left, width


def _middle(start: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Reconstruct the requested middle: of the numbers that result in this start, the one with the fewest digits."""
    middle = start + width / 2
    short = _short(middle)
    return np.where(np.abs(short - width / 2 - start) <= np.spacing(np.abs(start)), short, middle)


def _short(values: np.ndarray) -> np.ndarray:
    """Round away the noise of unit conversions, which matplotlib does with a sum and a difference."""
    return np.array([float(f"{value:.12g}") for value in values])
