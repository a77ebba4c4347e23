"""`/codebox/stats`."""

from __future__ import annotations

from codebox_server.http.base import BoxHandler
from codebox_server.system.volume import volume


class StatsHandler(BoxHandler):
    """The usage that only the box can measure; the rest is measured outside."""

    async def get(self) -> None:
        """Send `{disk: {usedBytes, limitBytes} | null}`: null when the volume cannot be read."""
        found = volume(str(self.box.settings.root))
        self.send_json({"disk": None if found is None else found.to_json()})
