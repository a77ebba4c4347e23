"""`/codebox/contexts`."""

from __future__ import annotations

import base64
import os

from codebox_server.bounds import LIST_LIMIT, PATH_BYTES
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, env_field, optional_text, text_field
from codebox_server.kernels.interpreter import environment_of


class ContextsHandler(BoxHandler):
    """The list of contexts; they are removed through `/api/kernels`."""

    async def get(self) -> None:
        """Send `{items:[…]}`."""
        self.send_json({"items": self.box.contexts.list()})

    async def post(self) -> None:
        """Create another kernel from `{language, cwd?, env?, python?}`; 201. `python` is the folder of a virtual
        environment, relative to the working folder.
        """
        fields = self.body_fields({"language", "cwd", "env", "python"})
        language, cwd = text_field(fields, "language"), text_field(fields, "cwd", "")
        languages = self.box.specs.find_kernel_specs()
        if language not in languages:
            raise BoxError("invalid_request", f"language has to be one of {', '.join(languages)}", "/language")
        if "\0" in cwd or len(cwd) > PATH_BYTES:
            raise BoxError("invalid_request", "not a path", "/cwd")
        env = env_field(fields)
        python = optional_text(fields, "python")
        if python is not None:
            if language != "python":
                raise BoxError("invalid_request", f"{language} needs no Python", "/python")
            if "\0" in python or len(python) > PATH_BYTES:
                raise BoxError("invalid_request", "not a path", "/python")
            folder = os.path.normpath(os.path.join(self.box.settings.data, python))
            env = {**await environment_of(folder, self.box.environment.merged() | env), **env}
        self.send_json(await self.box.contexts.create(language, cwd, env), 201)


class ContextRestartHandler(BoxHandler):
    """Restarts a kernel under the same id."""

    async def post(self, context_id: str) -> None:
        """Send the context after the restart."""
        self.send_json(await self.box.contexts.restart(context_id))


class VariablesHandler(BoxHandler):
    """The variables of a context."""

    async def get(self, context_id: str) -> None:
        """Send `{items:[{name, type, shape?, length?, sizeBytes?, preview}], nextCursor}`, sorted by name."""
        limit = self.get_query_argument("limit", str(LIST_LIMIT))
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:6]) <= LIST_LIMIT:
            raise BoxError("invalid_request", f"limit has to be a number from 1 to {LIST_LIMIT}", "/limit")
        after = _decode(self.get_query_argument("cursor", ""))
        context = self.box.contexts.get(context_id)
        if not self.box.specs.lists_variables(context.language):
            raise BoxError("invalid_request", f"{context.language} cannot list its variables")
        found = await context.variables(int(limit), after)
        items, following = found.get("items"), found.get("following")
        self.send_json(
            {
                "items": items if isinstance(items, list) else [],
                "nextCursor": _encode(following) if isinstance(following, str) else None,
            }
        )


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "replace")).decode().rstrip("=")


def _decode(cursor: str) -> str:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:
        raise BoxError("invalid_request", "not a cursor of this listing", "/cursor") from None
