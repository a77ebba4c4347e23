"""`/codebox/executions`."""

from __future__ import annotations

from typing import Any

from codebox_server.bounds import (
    CPU_LIMIT_MS_MAX,
    HEADER_CHARACTERS,
    INPUT_BYTES,
    MIME_TYPES,
    STREAM_BYTES,
    STREAM_BYTES_MAX,
    TIMEOUT_MS_MAX,
)
from codebox_server.box import Box
from codebox_server.errors import BoxError
from codebox_server.http.base import (
    BoxHandler,
    check_id,
    env_field,
    flag_field,
    json_fields,
    number_field,
    optional_number,
    optional_text,
    text_field,
)
from codebox_server.jupyter.message import ClientMessage
from codebox_server.runs.execution import ExecutionRequest

_FIELDS = {
    "code",
    "language",
    "context",
    "timeoutMs",
    "cpuLimitMs",
    "cwd",
    "env",
    "autoInstall",
    "message",
    "outputBytes",
    "unattended",
}


class ExecutionsHandler(BoxHandler):
    """The list of executions that have not ended, or of one Jupyter client."""

    async def get(self) -> None:
        """Send `{items:[…]}`, oldest first; with `session` those of a Jupyter client, recently ended ones too."""
        session = self.get_query_argument("session", None)
        executions = self.box.executions
        found = executions.unfinished() if session is None else executions.of_session(session)
        self.send_json({"items": [execution.to_json() for execution in found]})


class ExecutionHandler(BoxHandler):
    """One execution."""

    async def put(self, execution_id: str) -> None:
        """Run code and stream its events from the first one."""
        request, context_id = read_request(self.box, execution_id, self.request.body)
        execution = await self.box.executions.start(request, context_id)
        await self.send_events(execution.journal, 0)

    async def delete(self, execution_id: str) -> None:
        """Ensure that it never runs: 204 when it was never received, 409 when it may have been."""
        self.box.executions.refuse(check_id(execution_id))
        self.send_nothing()

    async def get(self, execution_id: str) -> None:
        """Send the current state of the execution."""
        self.send_json(self.box.executions.get(execution_id).to_json())


def read_request(box: Box, execution_id: str, body: bytes) -> tuple[ExecutionRequest, str | None]:
    """Return what a body asks for, and its context if it names one. Raises invalid_request, and not_found (context)."""
    fields = json_fields(body, _FIELDS)
    context_id = optional_text(fields, "context")
    language = _language(box, text_field(fields, "language", "python"), context_id)
    env = env_field(fields)
    if env and not box.specs.takes_env(language):
        raise BoxError("invalid_request", f"{language} does not support an environment for a single run", "/env")
    folder = optional_text(fields, "cwd")
    if folder is not None and not box.specs.takes_folder(language):
        raise BoxError("invalid_request", f"{language} does not support a folder for a single run", "/cwd")
    request = ExecutionRequest(
        id=check_id(execution_id),
        code=text_field(fields, "code"),
        language=language,
        timeout_ms=number_field(fields, "timeoutMs", 1, TIMEOUT_MS_MAX),
        cpu_limit_ms=optional_number(fields, "cpuLimitMs", 1, CPU_LIMIT_MS_MAX),
        env=env,
        auto_install=flag_field(fields, "autoInstall"),
        message=_message_field(fields),
        folder=None if folder is None else box.commands.folder(folder),
        unattended=flag_field(fields, "unattended"),
        output_bytes=optional_number(fields, "outputBytes", 1, STREAM_BYTES_MAX) or STREAM_BYTES,
    )
    return request, context_id


def _language(box: Box, requested: str, context_id: str | None) -> str:
    if context_id is not None:
        return box.contexts.get(context_id).language
    languages = box.specs.find_kernel_specs()
    if requested not in languages:
        raise BoxError("invalid_request", f"language has to be one of {', '.join(languages)}", "/language")
    return requested


def _message_field(fields: dict[str, Any]) -> ClientMessage | None:
    """Return `{id, session, username, storeHistory, allowStdin, expressions?}`, which is optional."""
    value = fields.get("message")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BoxError("invalid_request", "message has to be an object", "/message")
    names = ("id", "session", "username")
    texts = [text_field(value, name) for name in names]
    if not texts[0] or any(len(text) > HEADER_CHARACTERS for text in texts):
        raise BoxError("invalid_request", f"a field of message has at most {HEADER_CHARACTERS} characters", "/message")
    number, session, username = texts
    flags = (flag_field(value, "storeHistory"), flag_field(value, "allowStdin"))
    return ClientMessage(number, session, username, *flags, _expressions_field(value))


def _expressions_field(fields: dict[str, Any]) -> dict[str, str]:
    value = fields.get("expressions", {})
    if not isinstance(value, dict) or not all(isinstance(expression, str) for expression in value.values()):
        raise BoxError("invalid_request", "expressions has to be an object of texts", "/message/expressions")
    if len(value) > MIME_TYPES:
        raise BoxError("invalid_request", f"expressions has at most {MIME_TYPES} fields", "/message/expressions")
    return value


class ExecutionEventsHandler(BoxHandler):
    """The journal of an execution."""

    async def get(self, execution_id: str) -> None:
        """Stream events after `after`, then live ones."""
        await self.send_events(self.box.executions.get(execution_id).journal, self.after())


class ExecutionInputHandler(BoxHandler):
    """Input for code that waits in `input()`."""

    async def post(self, execution_id: str) -> None:
        """Accept `{text}`, without a line end."""
        text = text_field(self.body_fields({"text"}), "text")
        if len(text) > INPUT_BYTES:
            raise BoxError("too_large", f"an input has at most {INPUT_BYTES} characters", "/text")
        self.box.executions.provide_input(execution_id, text)
        self.send_nothing()


class ExecutionInterruptHandler(BoxHandler):
    """Interrupts a run and keeps its variables if possible."""

    async def post(self, execution_id: str) -> None:
        """Respond with 202; the end comes as the `done` event."""
        self.box.executions.interrupt(execution_id)
        self.send_nothing(202)
