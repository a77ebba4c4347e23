"""Templates that boxes are created from."""

from __future__ import annotations

from collections.abc import AsyncIterator

from typing_extensions import Unpack

from .. import _counting
from .._call import Call, creating, path_of
from ..models import BuildEvent, Template, TemplateDetail, TemplateVersion
from ..options import BuildOptions
from .streams import AsyncEventStream
from .transport import AsyncTransport

_LINES = {"accept": "application/x-ndjson"}


class AsyncTemplates:
    """What boxes are created from: templates of the operator, and those that the tenant builds."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(self, template: str) -> TemplateDetail:
        """Finds a template by its name."""
        return await self._transport.json(TemplateDetail, Call("GET", path_of("templates", template)))

    async def build(
        self,
        template: str,
        *,
        from_template: str | None = None,
        from_box: str | None = None,
        variables: bool = False,
        **options: Unpack[BuildOptions],
    ) -> TemplateVersion:
        """Begins to build a template, or its next version, from a template or a box; ``log`` follows it to its end.

        With ``variables`` boxes begin with those of the box in Python.
        """
        given = {"template": from_template, "box": from_box, "variables": variables or None}
        source = {name: value for name, value in given.items() if value is not None}
        call = creating(path_of("templates", template), {"from": source} if source else {}, options, method="PUT")
        return await self._transport.json(TemplateVersion, call)

    async def delete(self, template: str) -> None:
        """Deletes a template that the tenant has built. Its boxes stay."""
        await self._transport.done(Call("DELETE", path_of("templates", template)))

    def versions(self, template: str) -> AsyncIterator[TemplateVersion]:
        """The versions of a template, newest first."""
        return self._transport.items(TemplateVersion, Call("GET", path_of("templates", template, "versions")))

    async def version(self, template: str, version: int) -> TemplateVersion:
        """Finds a version of a template by its number."""
        path = path_of("templates", template, "versions", str(version))
        return await self._transport.json(TemplateVersion, Call("GET", path))

    def log(self, template: str, version: int, *, after: int | None = None) -> AsyncEventStream[BuildEvent]:
        """Streams the log of a build from any point, up to ``done``."""

        def reopen(number: str, seen: int | None) -> Call:
            path = path_of("templates", template, "versions", number, "log")
            return Call("GET", path, query={"after": seen}, headers=_LINES)

        return AsyncEventStream(self._transport, _counting.builds, reopen, run_id=str(version), after=after)

    def list(self) -> AsyncIterator[Template]:
        """The templates that boxes are created from."""
        return self._transport.items(Template, Call("GET", path_of("templates")))
