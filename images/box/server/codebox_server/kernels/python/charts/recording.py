"""Keeps on the artists what matplotlib forgets: values of a pie, bins of a histogram, statistics of a box plot.

Three methods of Axes are wrapped when matplotlib has been imported, whether that was before a shell came to be (in a
kernel forked from a process that had it already) or is yet to happen. The wrappers only look at what a method answers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from codebox_server.kernels.python.after_import import after_import

_MODULE = "matplotlib.axes._axes"
# Set on artists, with what the functions below describe.
NOTE = "_codebox_note"


def begin() -> None:
    """Record from now on; calling it again changes nothing."""
    after_import(_MODULE, lambda module: _wrap(module.Axes))


def _wrap(axes: Any) -> None:
    for name, note in (("pie", _note_pie), ("hist", _note_histogram), ("bxp", _note_boxes)):
        method = getattr(axes, name, None)
        if method is not None and not hasattr(method, NOTE):
            setattr(axes, name, _observed(method, note))


def _observed(method: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = method(self, *args, **kwargs)
        # A chart without its values is still a chart, and the call of the user has succeeded.
        with contextlib.suppress(Exception):
            note(answer, *args, **kwargs)
        return answer

    setattr(observed, NOTE, True)
    return observed


def _note_pie(pie: Any, *_args: Any, **_kwargs: Any) -> None:
    """Each wedge knows its value."""
    for wedge, value in zip(pie.wedges, pie.values, strict=True):
        setattr(wedge, NOTE, float(value))


def _note_histogram(answer: Any, *_args: Any, orientation: str = "vertical", **_kwargs: Any) -> None:
    """Each container of bars knows its edges; each outline knows edges, tops and orientation."""
    tops, edges, drawn = answer
    single = hasattr(drawn, "patches") or not len(drawn) or not _is_nested(drawn)
    for top, parts in zip([tops] if single else tops, [drawn] if single else drawn, strict=False):
        if hasattr(parts, "patches"):
            setattr(parts, NOTE, edges)
        else:
            for part in parts:
                setattr(part, NOTE, (edges, top, orientation))


def _is_nested(drawn: Any) -> bool:
    return isinstance(drawn[0], (list, tuple))


def _note_boxes(parts: dict[str, Any], bxpstats: Any, *_args: Any, **kwargs: Any) -> None:
    """The median of each box knows its statistics and box; all other parts know that they are parts."""
    stats = list(bxpstats)
    for part in _all(parts):
        setattr(part, NOTE, None)
    boxes = parts["boxes"] or [None] * len(stats)
    means = parts["means"] or [None] * len(stats)
    vertical = kwargs.get("vert") is not False and kwargs.get("orientation", "vertical") == "vertical"
    for at, (median, stat) in enumerate(zip(parts["medians"], stats, strict=True)):
        whisker = parts["whiskers"][2 * at]
        note = {"stat": stat, "box": boxes[at], "whisker": whisker, "mean": means[at] is not None, "vertical": vertical}
        setattr(median, NOTE, {**note, "fliers": bool(parts["fliers"])})


def _all(parts: dict[str, Any]) -> Iterator[Any]:
    for artists in parts.values():
        yield from artists
