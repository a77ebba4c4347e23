"""One series before its encoding: scalar fields, and columns that may be thinned to fit."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Limit for the JSON of one chart.
CHART_BYTES = 2 * 1024 * 1024
_SERIES = 500
# Limit for a label or title.
_TEXT_CHARACTERS = 300
# Numbers are written with all their digits; this is the longest one with its comma.
_NUMBER_BYTES = 25


@dataclass
class Column:
    """Values along one axis of the plot, or without one (`axis` None): floats, or text in an object array."""

    values: np.ndarray
    axis: Any = None

    def cost(self) -> int:
        """Return the size of the longest value as JSON, in bytes."""
        if self.values.dtype == object:
            return max((len(json.dumps(value)) for value in self.values), default=0) + 1
        return _NUMBER_BYTES if self.axis is None else self.axis.value_bytes

    def to_json(self, rows: np.ndarray | None) -> list[Any]:
        """Return the values of these rows, all when None."""
        values = self.values if rows is None else self.values[rows]
        if values.dtype == object:
            return list(values)
        return numbers(values) if self.axis is None else self.axis.encode(values)


@dataclass
class Series:
    """All `columns` have the same length. `rows` are the rows that are kept, all when None."""

    fields: dict[str, Any]
    columns: dict[str, Column] = field(default_factory=dict)
    rows: np.ndarray | None = None

    @property
    def length(self) -> int:
        """The number of points."""
        return min((len(column.values) for column in self.columns.values()), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the series in the form of the contract."""
        return {**self.fields, **{name: column.to_json(self.rows) for name, column in self.columns.items()}}


def numbers(values: Any) -> list[float | None]:
    """Encode floats for JSON: a value that is not finite becomes null."""
    array = np.asarray(values, dtype=float)
    if np.isfinite(array).all():
        return array.tolist()
    return [value if math.isfinite(value) else None for value in array.tolist()]


def number(value: Any) -> float | None:
    """Encode one float for JSON."""
    return numbers([value])[0]


def text(value: Any) -> str | None:
    """Return a label or title, cut to the limit; None when it is blank."""
    words = str(value)[:_TEXT_CHARACTERS] if value is not None else ""
    return words if words.strip() else None


def thin(series: list[Series]) -> dict[str, int]:
    """Drop rows and series so that the rest stays within the limits; return how many: `{points, series}`."""
    left_out = {"points": 0, "series": max(0, len(series) - _SERIES)}
    del series[_SERIES:]
    costs = [one.length * sum(column.cost() for column in one.columns.values()) for one in series]
    room = CHART_BYTES - 64 * 1024 - sum(len(json.dumps(one.fields)) for one in series)
    if sum(costs) <= room:
        return left_out
    share = max(0.0, room / sum(costs))
    for one in series:
        kept = int(one.length * share)
        # Evenly, so that a long line keeps its shape.
        one.rows = np.linspace(0, one.length - 1, kept).astype(int)
        left_out["points"] += one.length - kept
    return left_out
