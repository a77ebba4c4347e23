"""Lines and markers of `plot`, and straight lines across the whole Axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_hex, to_rgba
from matplotlib.lines import Line2D

from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.series import Column, Series, text

_DASHES: dict[object, str] = {"-": "solid", "--": "dashed", "-.": "dashdot", ":": "dotted"}
_STEPS = {"steps": "pre", "steps-pre": "pre", "steps-mid": "mid", "steps-post": "post"}


def read(line: Line2D, axes: Any, x: AxisReader, y: AxisReader) -> list[Series] | None:
    """Return a line, markers as a scatter, or a rule; None for a line in other coordinates."""
    if type(line).__name__ == "AxLine":
        return None
    in_x, in_y = line.get_transform().contains_branch_seperately(axes.transData)
    across, along = np.asarray(line.get_xdata(orig=False), float), np.asarray(line.get_ydata(orig=False), float)
    if in_x != in_y:
        values, axis = (across, x) if in_x else (along, y)
        if len(values) == 0 or (values != values[0]).any():
            return None
        orientation = "vertical" if in_x else "horizontal"
        return [
            Series({"type": "rule", **style(line), "orientation": orientation, "value": axis.encode(values[:1])[0]})
        ]
    if not in_x:
        return None
    if not (np.isfinite(across) & np.isfinite(along)).any():
        # Legends are made of lines without points.
        return []
    columns = {"x": Column(across, x), "y": Column(along, y)}
    if line.get_linestyle() not in _DASHES:
        if marker_of(line) is None:
            return []
        fields = {**style(line), "color": color_of(line), "marker": marker_of(line), "size": line.get_markersize() ** 2}
        return [Series({"type": "scatter", **fields}, columns)]
    fields = {"type": "line", **style(line), "line": _DASHES[line.get_linestyle()], "width": line.get_linewidth()}
    step = _STEPS.get(line.get_drawstyle())
    return [Series({**fields, "marker": marker_of(line), **({"step": step} if step else {})}, columns)]


def style(artist: Any) -> dict[str, Any]:
    """Return label, colour and, if it is not 1, opacity of an artist."""
    fields: dict[str, Any] = {"label": label_of(artist), "color": color_of(artist)}
    alpha = artist.get_alpha()
    if isinstance(alpha, (int, float)) and alpha < 1:
        fields["opacity"] = float(alpha)
    return fields


def label_of(artist: Any) -> str | None:
    """Return the label for a legend; None for names that matplotlib generated."""
    label = artist.get_label()
    return None if label is None or str(label).startswith("_") else text(label)


def color_of(artist: Any) -> str | None:
    """Return the first visible colour as #rrggbb."""
    names = ["get_color", "get_facecolor", "get_edgecolor"]
    if isinstance(artist, Line2D) and artist.get_linestyle() not in _DASHES:
        # Only its markers are visible.
        names.insert(0, "get_markerfacecolor")
    for name in names:
        if hasattr(artist, name) and (shade := hex_of(getattr(artist, name)())) is not None:
            return shade
    return None


def hex_of(color: Any) -> str | None:
    """Return a colour, or the first of several, as #rrggbb; None when it is invisible or not a colour."""
    if isinstance(color, np.ndarray) and color.ndim == 2:
        if len(color) == 0:
            return None
        color = color[0]
    if isinstance(color, str) and color.lower() in ("none", "auto"):
        return None
    return None if to_rgba(color)[3] == 0 else to_hex(color)


def marker_of(line: Line2D) -> str | None:
    """Return the code of a marker, such as `o`; `custom` for a user-defined shape."""
    marker = line.get_marker()
    if isinstance(marker, str):
        return None if marker in ("", " ", "None", "none") else marker[:20]
    return None if marker is None else str(marker) if isinstance(marker, int) else "custom"
