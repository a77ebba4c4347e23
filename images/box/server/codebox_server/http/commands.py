"""`/codebox/commands`."""

from __future__ import annotations

from typing import Any

from codebox_server.bounds import CPU_LIMIT_MS_MAX, INPUT_BYTES, STDIN_BACKLOG_BYTES, TIMEOUT_MS_MAX
from codebox_server.errors import BoxError
from codebox_server.http.base import (
    BoxHandler,
    base64_field,
    check_id,
    env_field,
    flag_field,
    optional_number,
    optional_text,
    text_field,
)
from codebox_server.runs.command import CommandRequest


class CommandsHandler(BoxHandler):
    """The list of commands."""

    async def get(self) -> None:
        """Send `{items:[…]}`, oldest first."""
        self.send_json({"items": [command.to_json() for command in self.box.commands.list()]})


class CommandHandler(BoxHandler):
    """One command."""

    async def put(self, command_id: str) -> None:
        """Start a process and stream its events from the first one."""
        fields = self.body_fields({"command", "argv", "cwd", "env", "timeoutMs", "cpuLimitMs", "stdin", "openStdin"})
        request = CommandRequest(
            id=check_id(command_id),
            command=_command(fields),
            argv=_argv(fields),
            cwd=self.box.commands.folder(optional_text(fields, "cwd")),
            env=env_field(fields),
            timeout_ms=optional_number(fields, "timeoutMs", 1, TIMEOUT_MS_MAX),
            cpu_limit_ms=optional_number(fields, "cpuLimitMs", 1, CPU_LIMIT_MS_MAX),
            stdin=_stdin(fields),
            open_stdin=flag_field(fields, "openStdin"),
        )
        if (request.command is None) == (request.argv is None):
            raise BoxError("invalid_request", "either command or argv is needed", "/command")
        command = await self.box.commands.start(request)
        await self.send_events(command.journal, 0)

    async def get(self, command_id: str) -> None:
        """Send the current state of the command."""
        self.send_json(self.box.commands.get(command_id).to_json())

    async def delete(self, command_id: str) -> None:
        """Respond with 202 when the command is being ended, 204 when it had ended."""
        command = self.box.commands.get(command_id)
        if command.state == "done":
            self.send_nothing(204)
            return
        command.end("killed")
        self.send_nothing(202)


class CommandEventsHandler(BoxHandler):
    """The journal of a command."""

    async def get(self, command_id: str) -> None:
        """Stream events after `after`, then live ones."""
        await self.send_events(self.box.commands.get(command_id).journal, self.after())


class CommandInputHandler(BoxHandler):
    """The stdin of a command."""

    async def post(self, command_id: str) -> None:
        """Accept `{text | base64, eof?}`."""
        fields = self.body_fields({"text", "base64", "eof"})
        data = _input(fields)
        eof = flag_field(fields, "eof")
        if len(data) > INPUT_BYTES:
            raise BoxError("too_large", f"an input has at most {INPUT_BYTES} bytes")
        self.box.commands.get(command_id).write(data, eof)
        self.send_nothing()


def _command(fields: dict[str, Any]) -> str | None:
    command = optional_text(fields, "command")
    if command is not None and "\0" in command:
        raise BoxError("invalid_request", "a command must not contain NUL", "/command")
    return command


def _argv(fields: dict[str, Any]) -> list[str] | None:
    argv = fields.get("argv")
    if argv is None:
        return None
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) and "\0" not in part for part in argv):
        raise BoxError("invalid_request", "argv has to be a list of strings without NUL", "/argv")
    return argv


def _stdin(fields: dict[str, Any]) -> bytes:
    data = (optional_text(fields, "stdin") or "").encode("utf-8", "replace")
    if len(data) > STDIN_BACKLOG_BYTES:
        raise BoxError("too_large", f"stdin has at most {STDIN_BACKLOG_BYTES} bytes", "/stdin")
    return data


def _input(fields: dict[str, Any]) -> bytes:
    if fields.get("base64") is not None:
        return base64_field(fields, "base64")
    return text_field(fields, "text", "").encode("utf-8", "replace")
