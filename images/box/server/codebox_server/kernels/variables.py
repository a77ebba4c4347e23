"""Our extension of the Jupyter protocol that lists variables. It counts and prints nothing and is not a run."""

from __future__ import annotations

from typing import Any

REQUEST = "codebox_variables_request"
# Saves variables as files, checks such files or loads them: Python only.
SAVED = "codebox_saved_variables_request"


class VariablesMixin:
    """Adds the request to an ipykernel class."""

    shell_handlers: dict[str, Any]
    session: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell_handlers[REQUEST] = self.variables_request

    async def variables_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Reply `{items, following}`: a page of variables, and the name where the next page starts, or null."""
        content = parent["content"]
        page = await self.list_variables(content["limit"], content["after"])
        self.session.send(stream, "codebox_variables_reply", page, parent, ident=ident)

    async def list_variables(self, limit: int, after: str) -> dict[str, Any]:
        """Return up to `limit` variables whose names sort after `after`. Must end within some seconds."""
        raise NotImplementedError


def page_of(names: list[str], limit: int, after: str) -> tuple[list[str], str | None]:
    """Return the names of a page, and its last one when there are more."""
    rest = [name for name in names if name > after]
    return rest[:limit], rest[limit - 1] if len(rest) > limit else None
