"""One Axes: assigns its artists to readers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.collections import Collection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Wedge
from matplotlib.spines import Spine

from codebox_server.kernels.python.charts import bars, boxes, collections, errorbars, lines, patches, pies
from codebox_server.kernels.python.charts.axis import AxisReader
from codebox_server.kernels.python.charts.recording import NOTE
from codebox_server.kernels.python.charts.series import Series, text


class AxesReader:
    """Reads an Axes on construction. `series` are in the order of plotting."""

    def __init__(self, axes: Any) -> None:
        self._axes = axes
        self.x, self.y = AxisReader(axes, "x"), AxisReader(axes, "y")
        self._taken: set[int] = set()
        self._unknown: Counter[str] = Counter()
        self._bars: list[BarContainer] = [one for one in axes.containers if isinstance(one, BarContainer) and len(one)]
        self._errors = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
        self._find_categories()
        self.series = self._read()
        self._name_by_legend()

    def to_json(self, shown: list[Any], kept: set[int]) -> dict[str, Any]:
        """Return the Axes in the form of the contract, with those of its series that are in `kept`."""
        figure = self._axes.get_figure(root=True)
        # From the drawn position, as subfigures and insets define their positions differently.
        box = self._axes.bbox.transformed(figure.transFigure.inverted()).bounds
        titles = (text(self._axes.get_title(loc)) for loc in ("center", "left", "right"))
        fields: dict[str, Any] = {
            "title": next((title for title in titles if title), None),
            "bounds": [round(float(value), 6) for value in box],
            "projection": str(self._axes.name),
            "x": self.x.to_json(),
            "y": self.y.to_json(),
            "legend": self._axes.get_legend() is not None,
            "series": [series.to_json() for series in self.series if id(series) in kept],
        }
        arrangement = bars.arrangement(self.series)
        if arrangement is not None:
            fields["bars"] = arrangement
        return {**fields, **self._twin(shown)}

    def _twin(self, shown: list[Any]) -> dict[str, Any]:
        twins = self._axes._twinned_axes.get_siblings(self._axes)
        first = next((at for at, axes in enumerate(shown) if axes in twins), None)
        if first is None or shown[first] is self._axes:
            return {}
        shares_x = shown[first] in self._axes.get_shared_x_axes().get_siblings(self._axes)
        return {"twinOf": first, "shares": "x" if shares_x else "y"}

    def _find_categories(self) -> None:
        for container in self._bars:
            if not bars.is_histogram(container):
                axis = self.x if bars.is_vertical(container) else self.y
                axis.take_places(bars.places(container))
        for median in self._axes.lines:
            note = getattr(median, NOTE, None)
            if isinstance(note, dict):
                (self.x if note["vertical"] else self.y).take_places(np.array([boxes.place(note)]))
        drawn = [line for line in self._axes.lines if not hasattr(line, NOTE)]
        for axis in (self.x, self.y):
            if axis.labels and axis.kind == "number":
                values = [np.asarray(getattr(line, f"get_{axis.name}data")(orig=False), float) for line in drawn]
                axis.take_places(np.concatenate([one[np.isfinite(one)] for one in values] or [[]]), exactly=True)

    def _read(self) -> list[Series]:
        owners: dict[int, Any] = {}
        for container in self._bars:
            owners.update({id(patch): container for patch in container.patches})
            if container.errorbar is not None:
                self._take_errors(container.errorbar)
        for errors in self._errors:
            if id(errors) not in self._taken:
                owners.update({id(part): errors for part in errorbars.parts(errors)})
        found: list[Series] = []
        for artist in self._axes.get_children():
            if id(artist) in self._taken or not self._is_data(artist):
                continue
            self._taken.add(id(artist))
            owner = owners.get(id(artist))
            if owner is not None and id(owner) in self._taken:
                continue
            found += self._try(artist if owner is None else owner)
            if owner is not None:
                self._taken.add(id(owner))
        return found + [
            Series({"type": "unknown", "artist": name, "count": count}) for name, count in self._unknown.items()
        ]

    def _take_errors(self, container: ErrorbarContainer) -> None:
        self._taken.add(id(container))
        self._taken.update(id(part) for part in errorbars.parts(container))

    def _is_data(self, artist: Any) -> bool:
        if isinstance(artist, Spine) or artist is self._axes.patch or not artist.get_visible():
            return False
        return isinstance(artist, (Line2D, Patch, Collection, AxesImage))

    def _try(self, artist: Any) -> list[Series]:
        try:
            found = self._dispatch(artist)
        except Exception:
            # An artist that does not behave as its class promises is treated like one of an unknown class.
            found = None
        if found is None:
            self._unknown[type(artist).__name__] += 1
            return []
        return found

    def _dispatch(self, artist: Any) -> list[Series] | None:
        """Return the series of an artist or container: empty for a part of another one, None when it is unknown."""
        flat = self._axes.name in ("rectilinear", "polar")
        if not flat:
            return None
        if isinstance(artist, BarContainer):
            return bars.read(artist, self.x, self.y)
        if isinstance(artist, ErrorbarContainer):
            return errorbars.read(artist, self.x, self.y)
        if isinstance(artist, Wedge):
            wedges = [patch for patch in self._axes.patches if isinstance(patch, Wedge) and patch.get_visible()]
            self._taken.update(map(id, wedges))
            return pies.read(wedges)
        if hasattr(artist, NOTE) and not isinstance(getattr(artist, NOTE), tuple):
            return boxes.read(artist, self._axes, self.x, self.y)
        if isinstance(artist, Line2D):
            return lines.read(artist, self._axes, self.x, self.y)
        if isinstance(artist, Patch):
            return patches.read(artist, self._axes, self.x, self.y)
        return collections.read(artist, self._axes, self.x, self.y)

    def _name_by_legend(self) -> None:
        """Give a series without a label, as seaborn draws it, the label of the only legend entry in its colour."""
        legend = self._axes.get_legend()
        if legend is None:
            return
        names: dict[str, list[str]] = {}
        for handle, label in zip(legend.legend_handles, legend.get_texts(), strict=False):
            shade = lines.color_of(handle)
            if shade is not None:
                names.setdefault(shade, []).append(label.get_text())
        for series in self.series:
            entries = names.get(series.fields.get("color") or "", [])
            if series.fields.get("label", "") is None and len(entries) == 1:
                series.fields["label"] = text(entries[0])
