"""The paths that the client of CodeBoxAPI uses, at the root."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tornado import iostream, web

from codebox_server.bounds import STREAM_BYTES_MAX, TIMEOUT_MS_MAX
from codebox_server.box import Box
from codebox_server.dockerbox.chunks import tagged
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, optional_text, text_field
from codebox_server.http.downloads import send_file
from codebox_server.runs.command import Command, CommandRequest
from codebox_server.runs.execution import Execution, ExecutionRequest

_RUN_MS = min(3_600_000, TIMEOUT_MS_MAX)
_NO_NAMES = "Interactive namespace is empty"
_EMPTY = re.compile(r"\s*%(restart|who)\s*")


@dataclass
class Activity:
    """When the port was last used, and by how many requests it is being used."""

    used_at: float = field(default_factory=time.monotonic)
    open: int = 0


def routes(box: Box, activity: Activity) -> web.Application:
    """Return the application that serves these paths."""
    parts = {"box": box, "activity": activity}
    paths: list[tuple[str, type[web.RequestHandler]]] = [
        (r"/", HealthHandler),
        (r"/exec", ExecHandler),
        (r"/files/upload", UploadHandler),
        (r"/files/download/(.+)", DownloadHandler),
    ]
    return web.Application([(path, handler, parts) for path, handler in paths], log_function=lambda _handler: None)


class ClientHandler(BoxHandler):
    """Errors are those of FastAPI, with which the reference server is built."""

    def initialize(self, box: Box, activity: Activity) -> None:  # type: ignore[override]
        """Called by Tornado with the composition."""
        super().initialize(box)
        self._activity = activity
        activity.open += 1

    def on_finish(self) -> None:
        """The next timeout begins."""
        self._leave()

    def on_connection_close(self) -> None:
        """The client has left before the response was complete."""
        self._leave()

    def _leave(self) -> None:
        activity, self._activity = self._activity, Activity()
        activity.open = max(0, activity.open - 1)
        activity.used_at = time.monotonic()

    def set_default_headers(self) -> None:
        """The synchronous client sends some requests twice over a connection that is kept."""
        self.set_header("Connection", "close")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write `{"detail": …}`."""
        raised = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(raised, BoxError):
            status_code = 422 if raised.code == "invalid_request" else raised.status
        self.set_status(status_code)
        self.finish({"detail": str(raised) if isinstance(raised, BoxError) else self._reason})


class HealthHandler(ClientHandler):
    """Whether the box serves."""

    def get(self) -> None:
        """Send `{"status": "ok"}`."""
        self.send_json({"status": "ok"})


class ExecHandler(ClientHandler):
    """Runs code: cells share the kernel, a shell command shares nothing."""

    _run: Execution | Command | None = None

    async def post(self) -> None:
        """Accept `{code, kernel, cwd?}` and stream its output. The run ends when its reader leaves."""
        fields = self.body_fields({"code", "kernel", "cwd", "timeout"})
        code, kernel = text_field(fields, "code"), text_field(fields, "kernel", "ipython")
        cwd = optional_text(fields, "cwd")
        if kernel not in ("ipython", "bash"):
            raise BoxError("invalid_request", "kernel has to be ipython or bash", "/kernel")
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        if kernel == "ipython" and code.strip() == "%restart":
            context = await self.box.contexts.default("python")
            await self.box.contexts.restart(context.id)
            self.finish()
            return
        self._run = await (self._command(code, cwd) if kernel == "bash" else self._cell(code, cwd))
        try:
            async for event in _events(self._run):
                if event.get("text", "").startswith(_NO_NAMES) and _EMPTY.fullmatch(code):
                    continue
                if event["type"] == "input_request":
                    self._end()
                self.write(tagged(event).encode("utf-8", "replace"))
                await self.flush()
        except iostream.StreamClosedError:
            return
        self.finish()

    def on_connection_close(self) -> None:
        """Nobody could read the output later."""
        super().on_connection_close()
        self._end()

    def _end(self) -> None:
        if isinstance(self._run, Command):
            self._run.end("killed")
        elif self._run is not None and self._run.state != "done":
            self.box.executions.interrupt(self._run.request.id)

    async def _cell(self, code: str, cwd: str | None) -> Execution:
        request = ExecutionRequest(
            id=uuid.uuid4().hex,
            code=code,
            language="python",
            timeout_ms=_RUN_MS,
            env={},
            folder=None if cwd is None else self.box.commands.folder(cwd),
            output_bytes=STREAM_BYTES_MAX,
        )
        return await self.box.executions.start(request, None)

    async def _command(self, code: str, cwd: str | None) -> Command:
        # Packages go where the kernel finds them.
        command = code.removeprefix("uv ") if code.startswith("uv pip ") else code or ":"
        folder = self.box.commands.folder(cwd)
        request = CommandRequest(uuid.uuid4().hex, command, argv=None, cwd=folder, timeout_ms=_RUN_MS)
        return await self.box.commands.start(request)


async def _events(run: Execution | Command) -> AsyncIterator[dict[str, Any]]:
    async for batch in run.journal.read(0):
        for line in batch.splitlines():
            if line:
                yield json.loads(line)


class UploadHandler(ClientHandler):
    """Writes files."""

    def post(self) -> None:
        """Write each file of a form to the path that is its name."""
        for part in (part for parts in self.request.files.values() for part in parts):
            path = _inside(self.box, part.filename)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(part.body)
        self.send_json(None)


class DownloadHandler(ClientHandler):
    """Reads a file."""

    async def get(self, name: str) -> None:
        """Send the bytes of the file."""
        path = _inside(self.box, name)
        if not os.path.isfile(path):
            raise BoxError("not_found", "no such file")
        fd = os.open(path, os.O_RDONLY)
        try:
            await send_file(self, fd, os.fstat(fd), path)
        finally:
            os.close(fd)


def _inside(box: Box, name: str) -> str:
    """Return the path of a file below the working folder. Raises invalid_request for one outside."""
    data = os.path.realpath(box.settings.data)
    path = os.path.realpath(os.path.join(data, name))
    if not path.startswith(data + os.sep):
        raise BoxError("invalid_request", "the path leads out of the working folder")
    return path
