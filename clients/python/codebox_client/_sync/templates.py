# Generated from _async/templates.py by generate.py.
"""Templates that boxes are created from."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import Unpack

from .. import _counting
from .._call import Call, creating, path_of
from ..models import BuildEvent, Template, TemplateDetail, TemplateVersion
from ..options import BuildOptions
from .streams import EventStream
from .transport import Transport

_LINES = {"accept": "application/x-ndjson"}


class Templates:
    """What boxes are created from: templates of the operator, and those that the tenant builds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, template: str) -> TemplateDetail:
        """Finds a template by its name."""
        return self._transport.json(TemplateDetail, Call("GET", path_of("templates", template)))

    def build(
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
        return self._transport.json(TemplateVersion, call)

    def delete(self, template: str) -> None:
        """Deletes a template that the tenant has built. Its boxes stay."""
        self._transport.done(Call("DELETE", path_of("templates", template)))

    def versions(self, template: str) -> Iterator[TemplateVersion]:
        """The versions of a template, newest first."""
        return self._transport.items(TemplateVersion, Call("GET", path_of("templates", template, "versions")))

    def version(self, template: str, version: int) -> TemplateVersion:
        """Finds a version of a template by its number."""
        path = path_of("templates", template, "versions", str(version))
        return self._transport.json(TemplateVersion, Call("GET", path))

    def log(self, template: str, version: int, *, after: int | None = None) -> EventStream[BuildEvent]:
        """Streams the log of a build from any point, up to ``done``."""

        def reopen(number: str, seen: int | None) -> Call:
            path = path_of("templates", template, "versions", number, "log")
            return Call("GET", path, query={"after": seen}, headers=_LINES)

        return EventStream(self._transport, _counting.builds, reopen, run_id=str(version), after=after)

    def list(self) -> Iterator[Template]:
        """The templates that boxes are created from."""
        return self._transport.items(Template, Call("GET", path_of("templates")))
