"""Runs notebooks as commands, and makes one from the executions of a context."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebox_server.errors import BoxError
from codebox_server.files.paths import resolve
from codebox_server.jupyter.specs import BoxKernelSpecManager
from codebox_server.notebooks.document import NotebookFault, language_of, read_notebook
from codebox_server.notebooks.parameters import check_parameters
from codebox_server.runs.command import Command, CommandRequest
from codebox_server.runs.commands import Commands
from codebox_server.settings import Settings

# Not imported: it has libraries of its own.
_RUNNER = str(Path(__file__).with_name("runner.py"))


@dataclass(frozen=True)
class NotebookRequest:
    """A notebook to run; times in milliseconds. `output` None means that its own file gets the outputs."""

    id: str
    path: str
    output: str | None
    language: str | None
    parameters: dict[str, Any]
    stop_at_error: bool
    cell_timeout_ms: int | None
    timeout_ms: int | None
    cpu_limit_ms: int | None


class Notebooks:
    """Starts runs of notebooks."""

    def __init__(self, settings: Settings, specs: BoxKernelSpecManager, commands: Commands) -> None:
        self._settings = settings
        self._specs = specs
        self._commands = commands

    async def start(self, request: NotebookRequest) -> Command:
        """Run the notebook as a command that callers can read, follow and end; its events have the cells.

        Raises not_found (no file), invalid_request (not a notebook, no such kernel, parameters), conflict (id known),
        too_many_requests.
        """
        data = str(self._settings.data)
        source = resolve(data, request.path)
        target = source if request.output is None else resolve(data, request.output)
        language = await asyncio.to_thread(self._check, source, request)
        if not os.path.isdir(os.path.dirname(target)) or os.path.isdir(target):
            raise BoxError("invalid_request", "there is no folder for this file", "/output")
        # Links are resolved, so that the file that one leads to is replaced, and not the link.
        source, target = os.path.realpath(source), os.path.realpath(target)
        order = {
            "source": source,
            "target": target,
            "work": str(self._settings.upload),
            "sockets": str(self._settings.runtime),
            "kernels": str(self._settings.kernels),
            "language": language,
            "parameters": request.parameters,
            "stopAtError": request.stop_at_error,
            # nbclient counts in whole seconds.
            "cellSeconds": None if request.cell_timeout_ms is None else math.ceil(request.cell_timeout_ms / 1000),
        }
        return await self._commands.start(
            CommandRequest(
                request.id,
                None,
                [sys.executable, "-P", _RUNNER],
                os.path.dirname(source),
                request.timeout_ms,
                cpu_limit_ms=request.cpu_limit_ms,
                stdin=json.dumps(order).encode(),
                reports="cell",
            )
        )

    def _check(self, source: str, request: NotebookRequest) -> str:
        """Return the language of the kernel."""
        languages = list(self._specs.find_kernel_specs())
        try:
            language = request.language or language_of(read_notebook(source), languages)
        except NotebookFault as fault:
            raise BoxError("invalid_request", str(fault), "/path") from fault
        if language not in languages:
            choices = ", ".join(languages)
            raise BoxError("invalid_request", f"the box has no kernel of this notebook: choose {choices}", "/language")
        wrong = check_parameters(language, request.parameters)
        if wrong is not None:
            raise BoxError("invalid_request", wrong, "/parameters")
        return language
