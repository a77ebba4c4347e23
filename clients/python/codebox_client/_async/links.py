"""Links to files of a box."""

from __future__ import annotations

from collections.abc import AsyncIterator

from typing_extensions import Unpack

from .._call import Call, path_of
from ..models import CreatedLink, Link
from ..options import LinkOptions, to_json
from .transport import AsyncTransport


class AsyncLinks:
    """Links to files of a box: whoever has one reads or writes its file without a key."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        self._transport = transport
        self._path = path_of("boxes", box, "links")

    async def create(self, path: str, **options: Unpack[LinkOptions]) -> CreatedLink:
        """Creates a link to a file, which only this result contains, as the absolute ``url``."""
        call = Call("POST", self._path, json={"path": path, **to_json(options)})
        link = await self._transport.json(CreatedLink, call)
        return link.model_copy(update={"url": self._transport.url + link.url})

    def list(self) -> AsyncIterator[Link]:
        """The links of the box that have not expired, newest first."""
        return self._transport.items(Link, Call("GET", self._path))

    async def delete(self, link: str) -> None:
        """Revokes a link."""
        await self._transport.done(Call("DELETE", f"{self._path}/{link}"))
