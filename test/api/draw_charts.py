"""Draws the charts that a JSON file describes, one figure after the other."""

import datetime
import json
from typing import Any

import matplotlib.pyplot as plt


def dates(texts: list[str]) -> list[datetime.datetime]:
    """Parses times as naive datetimes, which matplotlib takes as UTC."""
    return [datetime.datetime.fromisoformat(text.removesuffix("Z")) for text in texts]


def draw_bars(axes: Any, chart: dict[str, Any]) -> None:
    """Single, grouped or stacked bars, vertical or horizontal."""
    places, names = list(range(len(chart["categories"]))), chart["categories"]
    upright = chart["orientation"] == "vertical"
    draw = axes.bar if upright else axes.barh
    count = len(chart["sets"])
    width = 0.8 if chart["arrangement"] == "stacked" else 0.8 / count
    floor = [0.0] * len(places)
    for at, one in enumerate(chart["sets"]):
        if chart["arrangement"] == "stacked":
            draw(names, one["values"], width, floor, label=one["label"])
            floor = [base + value for base, value in zip(floor, one["values"], strict=True)]
        else:
            shift = (at - (count - 1) / 2) * width
            draw([place + shift for place in places], one["values"], width, label=one["label"])
    if chart["arrangement"] != "stacked":
        (axes.set_xticks if upright else axes.set_yticks)(places, names)


def draw(axes: Any, chart: dict[str, Any]) -> None:
    """Draws one chart on its Axes."""
    kind = chart["kind"]
    if kind == "line":
        for one in chart["sets"]:
            axes.plot(one["x"], one["y"], label=one["label"], color=one["color"])
    elif kind == "scatter":
        axes.scatter(chart["x"], chart["y"], s=chart["sizes"], color=chart["color"])
    elif kind == "bar":
        draw_bars(axes, chart)
    elif kind == "pie":
        axes.pie(chart["values"], labels=chart["labels"], startangle=90)
    elif kind == "box":
        axes.boxplot(chart["sets"], tick_labels=chart["labels"], orientation=chart["orientation"])
    elif kind == "histogram":
        axes.hist(chart["values"], bins=chart["edges"], orientation=chart["orientation"], histtype=chart["style"])
    elif kind == "errorbar":
        axes.errorbar(chart["x"], chart["y"], yerr=[chart["minus"], chart["plus"]], fmt=chart["format"], label="m")
    elif kind == "scales":
        axes.plot(dates(chart["times"]), chart["y"])
        axes.set_yscale("log")
    elif kind == "twin":
        axes.plot(chart["x"], chart["left"], color="tab:red")
        axes.set_ylabel("left")
        other = axes.twinx()
        other.bar(chart["x"], chart["right"])
        other.set_ylabel("right")
    axes.set_title(chart["title"])


def draw_figure(chart: dict[str, Any]) -> None:
    """Draws one figure, with subplots if the chart has parts."""
    parts = chart.get("parts")
    if parts is None:
        figure, axes = plt.subplots(figsize=(2, 2), dpi=40)
        draw(axes, chart)
        axes.set_xlabel(chart["title"] + " x")
    else:
        figure, all_axes = plt.subplots(2, 2, figsize=(2, 2), dpi=40)
        for axes, part in zip(all_axes.flat, parts, strict=True):
            draw(axes, part)
    figure.suptitle(chart["title"])
    plt.show()


def draw_file(path: str) -> None:
    """Draws every chart of the file."""
    with open(path, encoding="utf-8") as file:
        for chart in json.load(file):
            draw_figure(chart)
