"""`/codebox/notebooks`."""

from __future__ import annotations

import asyncio
from typing import Any

from codebox_server.bounds import CPU_LIMIT_MS_MAX, TIMEOUT_MS_MAX
from codebox_server.errors import BoxError
from codebox_server.http.base import (
    BoxHandler,
    check_id,
    flag_field,
    optional_number,
    optional_text,
    text_field,
)
from codebox_server.notebooks.export import Recorded, to_notebook
from codebox_server.notebooks.notebooks import NotebookRequest


class NotebookRunHandler(BoxHandler):
    """One run of a notebook, which then is a command."""

    async def put(self, command_id: str) -> None:
        """Run the notebook at `path`, and stream the events of the command."""
        names = {"path", "output", "language", "parameters", "goOn", "cellTimeoutMs", "timeoutMs", "cpuLimitMs"}
        fields = self.body_fields(names)
        request = NotebookRequest(
            id=check_id(command_id),
            path=text_field(fields, "path"),
            output=optional_text(fields, "output"),
            language=optional_text(fields, "language"),
            parameters=_parameters(fields),
            stop_at_error=not flag_field(fields, "goOn"),
            cell_timeout_ms=optional_number(fields, "cellTimeoutMs", 1, TIMEOUT_MS_MAX),
            timeout_ms=optional_number(fields, "timeoutMs", 1, TIMEOUT_MS_MAX),
            cpu_limit_ms=optional_number(fields, "cpuLimitMs", 1, CPU_LIMIT_MS_MAX),
        )
        command = await self.box.notebooks.start(request)
        await self.send_events(command.journal, 0)


class NotebookHandler(BoxHandler):
    """The executions of a context as a notebook."""

    async def get(self) -> None:
        """Send an `.ipynb` of the executions that the box still has, oldest first: those of `context`, or all in
        `language`.
        """
        context, language = self.get_query_argument("context", None), self.get_query_argument("language", "python")
        if context is not None:
            language = self.box.contexts.get(context).language
        elif language not in self.box.specs.find_kernel_specs():
            raise BoxError("invalid_request", "the box has no such language", "/query/language")
        runs = [
            Recorded(run.request.code, run.execution_count, run.journal.lines())
            for run in self.box.executions.known()
            if run.request.is_recorded and (run.context == context if context else run.request.language == language)
        ]
        title = str(self.box.specs.get_kernel_spec(language).display_name)
        body = await asyncio.to_thread(to_notebook, runs, language, title)
        self.set_header("Content-Type", "application/x-ipynb+json")
        self.finish(body.encode("utf-8", "replace"))


def _parameters(fields: dict[str, Any]) -> dict[str, Any]:
    parameters = fields.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise BoxError("invalid_request", "parameters has to be an object", "/parameters")
    return parameters
