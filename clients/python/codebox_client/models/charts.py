# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from codebox_client._model import Model


class Truncated(Model):
    """
    How many points and whole series were left out.
    """

    points: int
    series: int


class Tick(Model):
    label: str
    value: float


class ChartAxis(Model):
    label: str | None
    range: list[Any]
    """
    The visible range, from the start of the axis to its end: an inverted axis starts with the larger value.
    """
    scale: str
    """
    linear, log, symlog, logit, asinh or the name of another scale.
    """
    ticks: list[Tick] | None = None
    """
    Ticks with labels; for an axis of categories, all categories.
    """
    type: Literal["number", "category", "date"]


class ChartSeriesLine(Model):
    color: str | None
    label: str | None
    line: Literal["solid", "dashed", "dashdot", "dotted"]
    marker: str | None
    opacity: float | None = None
    step: Literal["pre", "mid", "post"] | None = None
    type: Literal["line"]
    width: float
    """
    Width in points.
    """
    x: list[float | str | None]
    y: list[float | str | None]


class ChartSeriesScatter(Model):
    """
    Points without a line; sizes in square points.
    """

    color: str | None
    colors: list[str | None] | None = None
    label: str | None
    marker: str | None
    opacity: float | None = None
    size: float | None = None
    sizes: list[float | None] | None = None
    type: Literal["scatter"]
    values: list[float | None] | None = None
    """
    The values that the colours represent.
    """
    x: list[float | str | None]
    y: list[float | str | None]


class ChartSeriesBar(Model):
    """
    Grouped bars differ in offset, stacked ones in base.
    """

    base: list[float | str | None]
    color: str | None
    colors: list[str | None] | None = None
    high: list[float | str | None] | None = None
    label: str | None
    low: list[float | str | None] | None = None
    """
    Where error bars start; high: where they end.
    """
    offset: list[float | None] | None = None
    """
    The distance of the middle from that category; left out when it is 0.
    """
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    position: list[float | str | None]
    """
    The middle of each bar; on an axis of categories, the nearest category.
    """
    type: Literal["bar"]
    value: list[float | None]
    """
    The length of each bar; it ends at base + value.
    """
    width: list[float | None]
    """
    In units of the axis (days on an axis of dates); neighbouring categories are 1 apart.
    """


class ChartSeriesHistogram(Model):
    base: list[float | str | None]
    color: str | None
    edges: list[float | str | None]
    """
    The edges of the bins: one more than values.
    """
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    type: Literal["histogram"]
    value: list[float | str | None]


class ChartSeriesPie(Model):
    """
    All wedges of one ring, in order.
    """

    colors: list[str | None]
    fractions: list[float | None]
    """
    Shares of the circle.
    """
    inner_radius: float
    """
    The inner radius of a ring; 0 for a pie.
    """
    labels: list[str | None]
    radius: float
    type: Literal["pie"]
    values: list[float | None]
    """
    The values as plotted; for wedges drawn one by one, their fractions.
    """


class ChartSeriesBox(Model):
    """
    One box of a box plot.
    """

    color: str | None
    high: float | str | None
    label: str | None
    low: float | str | None
    """
    The end of the lower whisker; high: of the upper one.
    """
    mean: float | str | None
    """
    Null when the plot does not show it.
    """
    median: float | str | None
    offset: float | None = None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    outliers: list[float | str | None]
    position: float | str | None
    q1: float | str | None
    q3: float | str | None
    type: Literal["box"]


class ChartSeriesErrorbar(Model):
    color: str | None
    label: str | None
    line: bool
    """
    Whether a line joins the points.
    """
    marker: str | None
    opacity: float | None = None
    type: Literal["errorbar"]
    x: list[float | str | None]
    x_high: list[float | str | None] | None = None
    x_low: list[float | str | None] | None = None
    y: list[float | str | None]
    y_high: list[float | str | None] | None = None
    y_low: list[float | str | None] | None = None


class ChartSeriesArea(Model):
    """
    One region of fill_between, or one body of a violin plot.
    """

    color: str | None
    from_: list[float | str | None]
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    position: list[float | str | None]
    to: list[float | str | None]
    type: Literal["area"]


class ChartSeriesSegments(Model):
    """
    Straight lines that are not joined, such as those of hlines and vlines.
    """

    color: str | None
    label: str | None
    opacity: float | None = None
    type: Literal["segments"]
    x0: list[float | str | None]
    x1: list[float | str | None]
    y0: list[float | str | None]
    y1: list[float | str | None]


class ChartSeriesRule(Model):
    """
    A line across everything: axhline is horizontal, axvline vertical.
    """

    color: str | None
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    type: Literal["rule"]
    value: float | str | None


class ChartSeriesSpan(Model):
    """
    A band across everything: axvspan is vertical, from and to are along x.
    """

    color: str | None
    from_: float | str | None
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    to: float | str | None
    type: Literal["span"]


class ChartSeriesImage(Model):
    """
    An image or a heat map; its pixels are only in the PNG.
    """

    columns: int
    extent: list[float | None]
    """
    Left, right, bottom and top.
    """
    label: str | None
    rows: int
    type: Literal["image"]


class ChartSeriesUnknown(Model):
    """
    An artist that only the PNG shows, by matplotlib's name.
    """

    artist: str
    count: int
    type: Literal["unknown"]


ChartSeries = TypeAliasType(
    "ChartSeries",
    ChartSeriesLine
    | ChartSeriesScatter
    | ChartSeriesBar
    | ChartSeriesHistogram
    | ChartSeriesPie
    | ChartSeriesBox
    | ChartSeriesErrorbar
    | ChartSeriesArea
    | ChartSeriesSegments
    | ChartSeriesRule
    | ChartSeriesSpan
    | ChartSeriesImage
    | ChartSeriesUnknown,
)


class ChartAxes(Model):
    bars: Literal["single", "grouped", "stacked", "overlaid"] | None = None
    bounds: list[Any]
    """
    Left, bottom, width and height as shares of the figure.
    """
    legend: bool
    projection: str
    """
    rectilinear; polar, where x is the angle; or another one.
    """
    series: list[ChartSeries]
    shares: Literal["x", "y"] | None = None
    """
    The axis that the two have in common.
    """
    title: str | None
    twin_of: int | None = None
    """
    The index of the axes that these axes overlay with a y axis (or x axis) of their own.
    """
    x: ChartAxis
    y: ChartAxis


class Chart(Model):
    axes: list[ChartAxes]
    height: int
    title: str | None
    truncated: Truncated | None = None
    """
    How many points and whole series were left out.
    """
    version: Literal[1]
    width: int
    """
    In pixels, as height.
    """
