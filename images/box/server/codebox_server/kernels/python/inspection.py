"""Describes variables, whatever their code does."""

from __future__ import annotations

from typing import Any

from codebox_server.kernels.python.copies import Bounds, in_copies
from codebox_server.kernels.python.description import describe, type_name, unknown

_BOUNDS = Bounds(total_seconds=3.0, stall_seconds=0.7, extra_bytes=128 << 20)


async def inspect(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return name, type and description of each value; only its type when its code fails, hangs or needs too much."""
    found = await in_copies(values, lambda _name, value: _facts_of(value), _BOUNDS)
    return [
        {"name": name, "type": type_name(value), **found.get(name, {"preview": unknown(value)})}
        for name, value in values.items()
    ]


def _facts_of(value: Any) -> dict[str, Any]:
    try:
        return describe(value)
    except BaseException:
        # Whatever the code of the value raises, even an exit, only costs its preview.
        return {"preview": unknown(value)}
