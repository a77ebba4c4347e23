"""Problems during a run: reported as the cause of an end that has none of its own."""

from __future__ import annotations

from typing import Any

from codebox_server.runs.outcome import crowded, out_of_memory
from codebox_server.runs.probe import Events, Probe


def trouble(probe: Probe, events: Events, failed: bool, blames_disk: bool = True) -> dict[str, Any] | None:
    """Return a cause, None when there was no problem.

    Killed processes, a child that ran out of memory or all leftovers of a run in a full box, are reported even when
    the code ended well. A full volume and refused processes are reported for code that failed: then they are the
    reason, as far as a box can know. `blames_disk`: whether the disk can be the reason, because it became full
    meanwhile or the code says so.
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
