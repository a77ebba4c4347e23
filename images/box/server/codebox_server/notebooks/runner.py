"""Run a notebook in a kernel of its own: `python -P runner.py <descriptor>`, with the request as JSON on stdin.

A process of the box, so that it ends with its time limit and counts like any command. It writes a line of JSON to the
descriptor at the start and the end of each cell, and what the cells print to its own streams. Its exit code is 1 when
a cell failed that it should stop at, 2 when the notebook could not be run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

if __name__ == "__main__":
    # At the end of the path: user code finds its own modules first.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from traitlets import observe

from codebox_server.bounds import CELL_OUTPUT_BYTES, KERNEL_START_SECONDS, NOTEBOOK_WRITE_SECONDS
from codebox_server.forks.provisioner import register_provisioner
from codebox_server.jupyter.specs import BoxKernelSpecManager
from codebox_server.notebooks.document import NotebookFault, read_notebook, write_notebook
from codebox_server.notebooks.parameters import inject


class _Specs(BoxKernelSpecManager):
    """The kernels of the box as processes of their own: only the box server can fork them."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec = super().get_kernel_spec(kernel_name)
        spec.metadata.pop("kernel_provisioner", None)
        return spec


class _Manager(AsyncKernelManager):
    """The manager of its kernel."""

    @observe("kernel_name")
    def _kernel_name_changed(self, change: Any) -> None:
        # The stock observer renames "python" to "python3"; here the name of a kernel is its language.
        self._kernel_spec = None


class _Run(NotebookClient):
    """One run: reports its cells, passes on what they print, and writes the file as it goes."""

    def __init__(self, notebook: NotebookNode, request: dict[str, Any], report: int, **options: Any) -> None:
        super().__init__(notebook, **options)
        self._request = request
        self._report = report
        self._begun_at = 0.0
        self._written_at = time.monotonic()
        self.failed = False
        self.on_cell_execute = self._begin
        self.on_cell_executed = self._end

    def save(self) -> None:
        """Write the file with the outputs so far."""
        self.set_widgets_metadata()
        write_notebook(self._request["target"], self.nb, self._request["work"])
        self._written_at = time.monotonic()

    def output(self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        """Record an output. Text is passed on too, and joined with the text before it."""
        if msg["msg_type"] == "stream":
            name, text = msg["content"].get("name"), str(msg["content"].get("text", ""))
            stream = sys.stderr if name == "stderr" else sys.stdout
            stream.write(text)
            stream.flush()
            last = outs[-1] if outs and not self.clear_before_next_output else None
            if last is not None and last.output_type == "stream" and last.get("name") == name:
                last.text += text
                return None
        return super().output(outs, msg, display_id, cell_index)

    def _begin(self, cell: NotebookNode, cell_index: int) -> None:
        self._begun_at = time.monotonic()
        cell.execution_count = None
        self._send(cell, cell_index, {"status": "running"})

    def _end(self, cell: NotebookNode, cell_index: int, execute_reply: dict[str, Any]) -> None:
        content = execute_reply["content"]
        failed = content.get("status") != "ok"
        self.failed = self.failed or failed
        cell.execution_count = content.get("execution_count")
        outputs = json.dumps(cell.outputs, ensure_ascii=False)
        self._send(
            cell,
            cell_index,
            {
                "status": "error" if failed else "ok",
                "executionCount": cell.execution_count,
                "durationMs": round((time.monotonic() - self._begun_at) * 1000, 3),
                "outputs": cell.outputs if len(outputs) <= CELL_OUTPUT_BYTES else None,
            },
        )
        if time.monotonic() - self._written_at >= NOTEBOOK_WRITE_SECONDS:
            self.save()

    def _send(self, cell: NotebookNode, index: int, fields: dict[str, Any]) -> None:
        line = json.dumps({"index": index, "cells": len(self.nb.cells), "id": cell.get("id"), **fields}) + "\n"
        data = memoryview(line.encode())
        while data:
            data = data[os.write(self._report, data) :]


def _clear(notebook: NotebookNode) -> None:
    """Drop the outputs of an earlier run, which cells that do not run now would keep."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


async def _execute(request: dict[str, Any], report: int) -> int:
    notebook = read_notebook(request["source"])
    _clear(notebook)
    inject(notebook, request["language"], request["parameters"])
    # The specs name it, and are refused without it.
    register_provisioner()
    specs = _Specs(image_kernels=request["kernels"])
    manager = _Manager(kernel_name=request["language"], kernel_spec_manager=specs, transport="ipc")
    manager.ip = os.path.join(request["sockets"], f"notebook-{os.getpid()}")
    run = _Run(
        notebook,
        request,
        report,
        km=manager,
        timeout=request["cellSeconds"],
        interrupt_on_timeout=True,
        allow_errors=not request["stopAtError"],
        startup_timeout=KERNEL_START_SECONDS,
        # An argument that our kernels do not take.
        ipython_hist_file="",
        resources={"metadata": {"path": os.path.dirname(request["source"])}},
    )
    executing = asyncio.current_task()
    assert executing is not None
    try:
        async with run.async_setup_kernel():
            # The time limit or a request ends the run: what the cells have shown so far is kept.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, executing.cancel)
            for index, cell in enumerate(notebook.cells):
                await run.async_execute_cell(cell, index)
    except CellExecutionError:
        # The cell has reported it.
        return 1
    except DeadKernelError:
        print("The kernel of the notebook has died.", file=sys.stderr)
        return 1
    finally:
        run.save()
        with contextlib.suppress(RuntimeError):
            await manager.shutdown_kernel(now=True)
    return 0


def main() -> None:
    """Read the request, run the notebook, and exit."""
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    request = json.load(sys.stdin)
    try:
        code = asyncio.run(_execute(request, report))
    except (NotebookFault, RuntimeError, OSError) as error:
        print(f"The notebook cannot be run: {error}", file=sys.stderr)
        code = 2
    except asyncio.CancelledError:
        code = 128 + signal.SIGTERM
    sys.exit(code)


if __name__ == "__main__":
    main()
