"""Keeps on the artists what matplotlib forgets: values of a pie, bins of a histogram, statistics of a box plot.

Three methods of Axes are wrapped once matplotlib has been imported, whether that happened before the shell was
created (in a kernel that was forked from a process with matplotlib) or happens later. The wrappers only read the
results.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from codebox_server.kernels.python.after_import import after_import

_MODULE = "matplotlib.axes._axes"
# Set on artists; the functions below describe its values.
NOTE = "_codebox_note"


def begin() -> None:
    """Record from now on; calling it again has no effect."""
    after_import(_MODULE, lambda module: _wrap(module.Axes))


def _wrap(axes: Any) -> None:
    for name, note in (("pie", _note_pie), ("hist", _note_histogram), ("bxp", _note_boxes)):
        method = getattr(axes, name, None)
        if method is not None and not hasattr(method, NOTE):
            setattr(axes, name, _observed(method, note))


def _observed(method: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        # A chart is still useful without these values, and the user's call has succeeded.
        with contextlib.suppress(Exception):
            note(result, *args, **kwargs)
        return result

    setattr(observed, NOTE, True)
    return observed


def _note_pie(pie: Any, *_args: Any, **_kwargs: Any) -> None:
    """Record the value of each wedge."""
    for wedge, value in zip(pie.wedges, pie.values, strict=True):
        setattr(wedge, NOTE, float(value))


def _note_histogram(result: Any, *_args: Any, orientation: str = "vertical", **_kwargs: Any) -> None:
    """Record edges on each container of bars, and edges, tops and orientation on each outline."""
    tops, edges, drawn = result
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
    """Record statistics and box on the median of each box, and mark all other parts."""
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
