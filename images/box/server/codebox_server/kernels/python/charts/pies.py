"""Pies: one series for all wedges of an Axes."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Wedge

from codebox_server.kernels.python.charts.lines import color_of
from codebox_server.kernels.python.charts.recording import NOTE
from codebox_server.kernels.python.charts.series import Column, Series, text


def read(wedges: list[Wedge]) -> list[Series]:
    """Return a series per ring. Values are as given; wedges that no `pie` created have their share of the circle."""
    rings: dict[tuple[float, ...], list[Wedge]] = {}
    for wedge in wedges:
        # Exploded wedges have a centre of their own; radius and width are the same in the whole ring.
        rings.setdefault((wedge.r, wedge.width or wedge.r), []).append(wedge)
    return [_ring(radius, width, members) for (radius, width), members in rings.items()]


def _ring(radius: float, width: float, wedges: list[Wedge]) -> Series:
    fractions = np.array([(wedge.theta2 - wedge.theta1) / 360 for wedge in wedges], dtype=float)
    notes = [getattr(wedge, NOTE, None) for wedge in wedges]
    known = all(isinstance(note, float) for note in notes)
    labels = [text(wedge.get_label()) for wedge in wedges]
    columns = {
        "labels": Column(np.array([None if (label or "_")[0] == "_" else label for label in labels], dtype=object)),
        "values": Column(np.array(notes, dtype=float) if known else fractions),
        "fractions": Column(fractions),
        "colors": Column(np.array([color_of(wedge) for wedge in wedges], dtype=object)),
    }
    return Series({"type": "pie", "radius": float(radius), "innerRadius": round(float(radius - width), 12)}, columns)
