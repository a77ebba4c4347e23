"""Makes a notebook from executions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

# Jupyter's own name of the kernel, by language.
_KERNELS = {"python": "python3"}


@dataclass(frozen=True)
class Recorded:
    """An execution as far as it has come: its code, its number in its kernel, and its events as lines of JSON."""

    code: str
    count: int | None
    lines: list[bytes]


def to_notebook(runs: Iterable[Recorded], language: str, title: str) -> str:
    """Return an `.ipynb` with a cell for each run. `title` is the display name of the kernel."""
    notebook = new_notebook(
        cells=[new_code_cell(run.code, execution_count=run.count, outputs=_outputs(run)) for run in runs],
        metadata={
            "kernelspec": {"name": _KERNELS.get(language, language), "display_name": title, "language": language},
            "language_info": {"name": language},
        },
    )
    text: str = nbformat.writes(notebook)
    return text


def _outputs(run: Recorded) -> list[NotebookNode]:
    outputs: list[NotebookNode] = []
    shown: dict[str, NotebookNode] = {}
    clears_next = False
    for line in run.lines:
        event = json.loads(line)
        if event["type"] == "clear":
            clears_next = bool(event["wait"])
            if not clears_next:
                outputs.clear()
            continue
        if event["type"] == "display_update":
            known = shown.get(event["displayId"])
            if known is not None:
                known.update(data=_data(event["mime"]), metadata=_metadata(event))
            continue
        output = _output(event, run.count)
        if output is None:
            continue
        if clears_next:
            outputs.clear()
            clears_next = False
        if event["type"] == "display" and "displayId" in event:
            shown[event["displayId"]] = output
        last = outputs[-1] if outputs else None
        if last is not None and output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            outputs.append(output)
    return outputs


def _output(event: dict[str, Any], count: int | None) -> NotebookNode | None:
    kind = event["type"]
    if kind in ("stdout", "stderr"):
        return new_output("stream", name=kind, text=event["text"])
    if kind == "truncated":
        return new_output("stream", name="stderr", text=f"[{event['droppedBytes']} bytes of output were dropped]\n")
    if kind == "error":
        return new_output("error", ename=event["name"], evalue=event["value"], traceback=event["traceback"])
    if kind == "result":
        data, metadata = _data(event["mime"]), _metadata(event)
        return new_output("execute_result", data=data, metadata=metadata, execution_count=count)
    if kind == "display":
        return new_output("display_data", data=_data(event["mime"]), metadata=_metadata(event))
    return None


def _data(mime: dict[str, Any]) -> dict[str, Any]:
    """Return what a notebook may have: JSON in types that are JSON, and text in all others."""
    return {kind: value for kind, value in mime.items() if isinstance(value, str) or kind.endswith("json")}


def _metadata(event: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = event.get("metadata", {})
    return metadata
