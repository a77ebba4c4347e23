"""One axis of a plot: the meaning of its numbers and their JSON form."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Literal

import matplotlib.category as mcategory
import matplotlib.dates as mdates
import matplotlib.ticker as mticker
import numpy as np

from codebox_server.kernels.python.charts.series import numbers, text

_TICKS = 1000
_NUMBER_BYTES = 25
_DATE_BYTES = 32
_DAY_US = 86_400_000_000
# The years 1 to 9999, which RFC 3339 can represent.
_DATE_MIN = np.datetime64("0001-01-01", "us")
_DATE_MAX = np.datetime64("9999-12-31T23:59:59.999999", "us")


class AxisReader:
    """`kind` is number, date or category. Values are matplotlib's own floats."""

    def __init__(self, axes: Any, name: str) -> None:
        self._axes = axes
        self.name = name
        self._axis = axes.xaxis if name == "x" else axes.yaxis
        self._freq = getattr(axes, "freq", None) if name == "x" else None
        self.kind = "number"
        # Texts by position: categories, or ticks with custom labels.
        self.labels: dict[float, str] = {}
        siblings = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
        shared = [getattr(sibling, f"{name}axis") for sibling in siblings]
        units = next((axis.get_units() for axis in shared if isinstance(axis.get_units(), mcategory.UnitData)), None)
        if units is not None:
            self.kind = "category"
            self.labels = {float(place): _cut(label) for label, place in units._mapping.items()}
        elif self._freq is not None or any(_is_date(axis) for axis in shared):
            self.kind = "date"
        else:
            self.labels = _named_ticks(self._axis)

    @property
    def value_bytes(self) -> int:
        """The size of the longest value as JSON, in bytes."""
        if self.kind == "category":
            return max([_NUMBER_BYTES, *(len(json.dumps(label)) + 1 for label in self.labels.values())])
        return _DATE_BYTES if self.kind == "date" else _NUMBER_BYTES

    def take_places(self, places: np.ndarray, exactly: bool = False) -> None:
        """Record positions of data: when all of them are at (or near) labelled ticks, those are categories."""
        if self.kind != "number" or not self.labels or len(places) == 0:
            return
        known = np.array(sorted(self.labels))
        names = set(self.labels.values())
        if len(names) < len(self.labels) or all(_spells(label, place) for place, label in self.labels.items()):
            return
        reach = 0.0 if exactly else float(np.diff(known).min()) / 2 if len(known) > 1 else 0.5
        near = _nearest(known, places)
        if (np.abs(places - near) <= reach).all():
            self.kind = "category"

    def split(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split positions into the nearest category and the distance from it; on other axes the distance is 0."""
        if self.kind != "category" or not self.labels or len(places) == 0:
            return places, np.zeros(len(places))
        near = _nearest(np.array(sorted(self.labels)), places)
        # Both numbers are rounded; their difference must not show it.
        return near, np.round(places - near, 12)

    def encode(self, values: Any) -> list[Any]:
        """Encode values as JSON: numbers, RFC 3339, or names of categories (a number between categories)."""
        array = np.asarray(values, dtype=float)
        if self.kind == "date":
            return self._dates(array)
        plain = numbers(array)
        if self.kind != "category":
            return plain
        return [value if value is None else self.labels.get(value, value) for value in plain]

    def to_json(self) -> dict[str, Any]:
        """Return the axis in the form of the contract."""
        low, high = self._axis.get_view_interval()
        if self._axis.get_inverted() and low < high:
            low, high = high, low
        bounds = self._dates(np.array([low, high])) if self.kind == "date" else numbers([low, high])
        fields: dict[str, Any] = {
            "label": text(self._axis.label.get_text()),
            "scale": str(self._axis.get_scale()),
            "type": self.kind,
            "range": bounds,
        }
        if self.labels:
            places = sorted(self.labels.items())[:_TICKS]
            fields["ticks"] = [{"value": place, "label": label} for place, label in places]
        return fields

    def _dates(self, values: np.ndarray) -> list[str | None]:
        if self._freq is not None:
            return _periods(values, self._freq)
        micros = np.full(len(values), np.iinfo(np.int64).min, dtype=np.int64)
        fine = np.isfinite(values) & (np.abs(values) < 4e6)
        micros[fine] = np.rint(values[fine] * _DAY_US).astype(np.int64)
        return _rfc3339(
            micros.view("datetime64[us]") + (np.datetime64(mdates.get_epoch(), "us") - np.datetime64(0, "us"))
        )


def _nearest(known: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return for each position the nearest of the sorted, known ones."""
    after = np.searchsorted(known, places).clip(1, max(1, len(known) - 1))
    before, after = known[after - 1], known[np.minimum(after, len(known) - 1)]
    return np.where(np.abs(places - before) <= np.abs(after - places), before, after)


def _rfc3339(times: np.ndarray) -> list[str | None]:
    micros = times.astype("datetime64[us]")
    fine = ~np.isnat(micros) & (micros >= _DATE_MIN) & (micros <= _DATE_MAX)
    parts = micros[fine].view(np.int64)
    unit: Literal["s", "ms", "us"] = "us" if (parts % 1000).any() else "ms" if (parts % 1_000_000).any() else "s"
    written = iter(np.datetime_as_string(micros[fine], unit=unit))
    return [f"{next(written)}Z" if ok else None for ok in fine.tolist()]


def _periods(values: np.ndarray, freq: Any) -> list[str | None]:
    """Decode the values of pandas, which plots time series of a regular frequency as counts since 1970."""
    pandas = sys.modules["pandas"]
    fine = np.isfinite(values)
    ordinals = np.where(fine, np.rint(np.where(fine, values, 0)), 0).astype(np.int64)
    starts = pandas.PeriodIndex.from_ordinals(ordinals, freq=freq).to_timestamp()
    times = np.where(fine, np.asarray(starts, dtype="datetime64[us]"), np.datetime64("NaT", "us"))
    return _rfc3339(times)


def _is_date(axis: Any) -> bool:
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    if isinstance(converter, (mdates.DateConverter, mdates._SwitchableDateConverter)):
        return True
    formatter = axis.get_major_formatter()
    return isinstance(formatter, (mdates.DateFormatter, mdates.AutoDateFormatter, mdates.ConciseDateFormatter))


def _named_ticks(axis: Any) -> dict[float, str]:
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if not isinstance(locator, mticker.FixedLocator):
        return {}
    if not isinstance(formatter, (mticker.FixedFormatter, mticker.FuncFormatter)):
        return {}
    places = [float(place) for place in locator.locs][:_TICKS]  # type: ignore[attr-defined]
    named = {place: _cut(formatter(place, at)) for at, place in enumerate(places) if math.isfinite(place)}
    return {place: label for place, label in named.items() if label.strip()}


def _cut(label: Any) -> str:
    return text(label) or ""


def _spells(label: str, place: float) -> bool:
    try:
        return float(label) == place
    except ValueError:
        return False
