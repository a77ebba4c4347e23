"""What a run met with while its code went on: told as the cause of an end that has none of its own."""

from __future__ import annotations

from typing import Any

from codebox_server.runs.outcome import crowded, out_of_memory
from codebox_server.runs.probe import Events, Probe


def trouble(probe: Probe, events: Events, failed: bool, blames_disk: bool = True) -> dict[str, Any] | None:
    """A cause, None when there was nothing.

    What was ended, a child for want of memory or all that a run has left in a box full of processes, is told even when
    the code ended well. A full volume and refused processes are told of code that failed: then they are why, as far as
    a box can know. `blames_disk`: whether the disk can be why, because it became full meanwhile or the code says so.
    """
    if events.oom is not None:
        return out_of_memory("child", events.oom)
    if events.ended:
        return crowded()
    if not failed:
        return None
    full = probe.full_volume() if blames_disk else None
    if full is not None:
        name, volume = full
        return {"code": "disk_full", "detail": f"there is no room on {name}", **volume.to_json()}
    return crowded() if events.refused else None
