"""`/codebox/stats`."""

from __future__ import annotations

from codebox_server.http.base import BoxHandler
from codebox_server.system.volume import volume


class StatsHandler(BoxHandler):
    """What only the box can tell about its use; the rest is counted outside."""

    async def get(self) -> None:
        """`{disk: {usedBytes, limitBytes} | null}`: null when the volume cannot be asked."""
        found = volume(str(self.box.settings.root))
        self.send_json({"disk": None if found is None else found.to_json()})
