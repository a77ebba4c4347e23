"""Parameters of a notebook: a cell with their values, after the cell that has the tag `parameters`."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_DECLARED = "parameters"
_INJECTED = "injected-parameters"


def check_parameters(language: str, parameters: dict[str, Any]) -> str | None:
    """Return what is wrong with these parameters, None if a cell in this language can set them."""
    for name, value in parameters.items():
        if not _NAME.fullmatch(name):
            return "the name of a parameter has to be a letter or _, followed by at most 99 letters, digits and _"
        if language == "bash" and isinstance(value, (list, dict)):
            return "a parameter of bash has to be a text, a number, true, false or null"
    if parameters and language not in ("python", "javascript", "typescript", "bash"):
        return f"notebooks in {language} take no parameters"
    return None


def inject(notebook: NotebookNode, language: str, parameters: dict[str, Any]) -> None:
    """Add the cell after the one with the tag `parameters`, or before all others, in place of an earlier one."""
    if not parameters:
        return
    cells = [cell for cell in notebook.cells if _INJECTED not in _tags(cell)]
    declared = next((index for index, cell in enumerate(cells) if _DECLARED in _tags(cell)), -1)
    cell = new_code_cell(_code(language, parameters), metadata={"tags": [_INJECTED]})
    notebook.cells = [*cells[: declared + 1], cell, *cells[declared + 1 :]]


def _tags(cell: NotebookNode) -> list[str]:
    tags = cell.metadata.get("tags", [])
    return tags if isinstance(tags, list) else []


def _code(language: str, parameters: dict[str, Any]) -> str:
    if language == "python":
        lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    elif language == "bash":
        lines = [f"{name}={shlex.quote(_shell_text(value))}" for name, value in parameters.items()]
    else:
        lines = [f"var {name} = {json.dumps(value)};" for name, value in parameters.items()]
    return "\n".join(lines)


def _shell_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
