"""A request of our own beside Jupyter's: what variables there are. It counts nothing, prints nothing and is no run."""

from __future__ import annotations

from typing import Any

REQUEST = "codebox_variables_request"


class VariablesMixin:
    """Adds the request to a kernel class of ipykernel."""

    shell_handlers: dict[str, Any]
    session: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell_handlers[REQUEST] = self.variables_request

    async def variables_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Answer `{items, following}`: a page of variables, and the name to ask on from or null."""
        content = parent["content"]
        answer = await self.list_variables(content["limit"], content["after"])
        self.session.send(stream, "codebox_variables_reply", answer, parent, ident=ident)

    async def list_variables(self, limit: int, after: str) -> dict[str, Any]:
        """Up to `limit` variables whose name sorts behind `after`. Must end within some seconds."""
        raise NotImplementedError


def page_of(names: list[str], limit: int, after: str) -> tuple[list[str], str | None]:
    """The names of a page, and its last one when there are more."""
    rest = [name for name in names if name > after]
    return rest[:limit], rest[limit - 1] if len(rest) > limit else None
