"""Collections and images: points of `scatter`, areas of `fill_between`, segments of `hlines` and `vlines`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import FillBetweenPolyCollection, LineCollection, PathCollection, QuadMesh
from matplotlib.image import AxesImage

from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.lines import hex_of, label_of, style
from codebox_server.kernels.python.charts.series import Column, Series, number


def read(artist: Any, axes: Any, x: AxisReader, y: AxisReader) -> list[Series] | None:
    """Return the series of a collection or image; None for another class or other coordinates."""
    if isinstance(artist, PathCollection) and not np.size(artist.get_offsets()):
        # An entry of a legend.
        return []
    if isinstance(artist, PathCollection):
        return [_scatter(artist, x, y)] if artist.get_offset_transform().contains_branch(axes.transData) else None
    if isinstance(artist, (AxesImage, QuadMesh)):
        return [_image(artist, x, y)]
    if not artist.get_transform().contains_branch(axes.transData):
        return None
    if isinstance(artist, FillBetweenPolyCollection):
        return _areas(artist, x, y)
    return _segments(artist, x, y) if isinstance(artist, LineCollection) else None


def _scatter(points: PathCollection, x: AxisReader, y: AxisReader) -> Series:
    offsets: np.ndarray = np.ma.filled(np.ma.asarray(points.get_offsets(), dtype=float), np.nan).reshape(-1, 2)
    count = len(offsets)
    columns = {"x": Column(offsets[:, 0], x), "y": Column(offsets[:, 1], y)}
    fields: dict[str, Any] = {"type": "scatter", **style(points), "marker": None}
    sizes, shades, values = points.get_sizes(), points.get_facecolor(), points.get_array()
    if not len(shades):
        shades = points.get_edgecolor()
    fields["color"] = hex_of(shades)
    if values is not None and len(values) == count:
        columns["values"] = Column(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))
    if count > 1 and len(shades) == count:
        columns["colors"] = Column(_hex_all(shades))
        fields["color"] = None
    if count > 1 and len(sizes) == count:
        columns["sizes"] = Column(np.asarray(sizes, dtype=float))
    elif len(sizes):
        fields["size"] = float(sizes[0])
    return Series(fields, columns)


def _hex_all(shades: Any) -> np.ndarray:
    channels = np.rint(np.asarray(shades)[:, :3] * 255).astype(int).tolist()
    return np.array([f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in channels], dtype=object)


def _areas(filled: Any, x: AxisReader, y: AxisReader) -> list[Series]:
    """Return one series for each region: the outline runs along one edge and back along the other."""
    vertical = filled.t_direction == "x"
    along, across = (x, y) if vertical else (y, x)
    found = []
    for path in filled.get_paths():
        points = path.vertices[:-1] if path.codes is not None else path.vertices
        ends = len(points) // 2
        if not vertical:
            points = points[:, ::-1]
        there, back = points[1:ends], points[ends + 1 :][::-1]
        columns = {
            "position": Column(there[:, 0], along),
            "from": Column(there[:, 1], across),
            "to": Column(back[:, 1], across),
        }
        orientation = "vertical" if vertical else "horizontal"
        found.append(Series({"type": "area", **style(filled), "orientation": orientation}, columns))
    return found


def _segments(lines: LineCollection, x: AxisReader, y: AxisReader) -> list[Series] | None:
    segments = lines.get_segments()
    if any(len(segment) != 2 for segment in segments):
        return None
    ends = np.array(segments, dtype=float).reshape(-1, 4)
    names = (("x0", x), ("y0", y), ("x1", x), ("y1", y))
    columns = {name: Column(ends[:, at], axis) for at, (name, axis) in enumerate(names)}
    return [Series({"type": "segments", **style(lines)}, columns)]


def _image(image: Any, x: AxisReader, y: AxisReader) -> Series:
    """Return the size and position of an image; its content is in the PNG."""
    if isinstance(image, AxesImage):
        left, right, bottom, top = image.get_extent()
        rows, columns = image.get_size()
    else:
        corners = np.asarray(image.get_coordinates(), dtype=float)
        rows, columns = corners.shape[0] - 1, corners.shape[1] - 1
        (left, bottom), (right, top) = corners[0, 0], corners[-1, -1]
    extent = [number(value) for value in (left, right, bottom, top)]
    return Series({"type": "image", "label": label_of(image), "rows": rows, "columns": columns, "extent": extent})
