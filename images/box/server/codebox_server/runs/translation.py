"""Translates the messages of a kernel to the events of an execution."""

from __future__ import annotations

from typing import Any

from codebox_server.jupyter import message as wire
from codebox_server.jupyter.message import Message
from codebox_server.packages.conflicts import refused_package
from codebox_server.packages.missing_package import ADVICE, HAS_RUN, TRIED, MissingPackage, MissingPackages
from codebox_server.runs.execution import Execution
from codebox_server.runs.output import marked

_PROMPT_CHARACTERS = 10_000
_PAYLOADS = 100


def take_output(execution: Execution, message: Message, origin: str | None = None) -> None:
    """Pass an iopub message to the output of this execution; kinds without an event are ignored.

    `origin` is the id of the earlier execution that it belongs to: its results and errors do not count for this one.
    """
    output, content = execution.output, message.content()
    kind, size = message.kind, len(message.raw_content)
    if kind == "stream":
        text = wire.text(content, "text")
        output.stream("stderr" if content.get("name") == "stderr" else "stdout", text, origin)
        execution.refused = refused_package(text) or execution.refused
    elif kind == "execute_result" and origin is None:
        output.rich("result", _rich(content) | {"main": True}, size, wire.dropped_bytes(content))
    elif kind in ("display_data", "execute_result"):
        output.rich("display", _display(content) | marked(origin), size, wire.dropped_bytes(content))
    elif kind == "update_display_data":
        shown = _display(content)
        # Without an id, there is no display that it could update.
        name = "display_update" if "displayId" in shown else "display"
        output.rich(name, shown | marked(origin), size, wire.dropped_bytes(content))
    elif kind == "clear_output":
        output.clear(bool(content.get("wait")), origin)
    elif kind == "error" and origin is not None:
        output.stream("stderr", f"{wire.text(content, 'ename')}: {wire.text(content, 'evalue')}\n", origin)


def take_error(execution: Execution, message: Message, missing_packages: MissingPackages) -> None:
    """Pass an error on with its hint; an error that an installation may avoid is held back."""
    execution.has_error = True
    request, (name, value, lines) = execution.request, _error_of(message.content())
    missing = missing_packages.find(request.language, request.code, name, value, lines)
    if missing is None:
        execution.output.error(name, value, lines, missing_packages.explain(value, execution.refused))
        return
    advice = _advice(execution, missing, missing_packages)
    if advice is None:
        execution.missing = missing
    else:
        execution.output.error(name, value, lines, missing.with_advice(advice))


def take_error_of_reply(execution: Execution) -> None:
    """Report the error of the reply to code that failed, for kernels that send it nowhere else."""
    reply = execution.reply or {}
    if not execution.has_error and isinstance(reply.get("ename"), str):
        execution.output.error(*_error_of(reply))


def _error_of(content: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Return name, value and traceback."""
    traceback = content.get("traceback")
    lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
    return wire.text(content, "ename"), wire.text(content, "evalue"), lines


def _advice(execution: Execution, missing: MissingPackage, missing_packages: MissingPackages) -> str | None:
    """Return the advice, None when the box should install the package itself."""
    request = execution.request
    if not request.auto_install:
        return ADVICE
    if execution.repaired:
        return TRIED
    return missing_packages.obstacle(request.language, request.code, missing) if execution.output.is_empty else HAS_RUN


def take_begin(execution: Execution, message: Message) -> None:
    """Record that the code begins to run: write `started`, once."""
    execution.begun = True
    fields: dict[str, Any] = {"context": execution.context, "language": execution.request.language}
    count = message.content().get("execution_count")
    if isinstance(count, int):
        execution.execution_count = fields["executionCount"] = count
    if not execution.repaired:
        execution.output.announce("started", fields)
    if execution.question is not None:
        take_question(execution, execution.question)


def take_question(execution: Execution, message: Message) -> None:
    """The code requests input. That comes on another channel, and is held back until the start is reported."""
    if not execution.begun:
        execution.question = message
        return
    execution.question = None
    content = message.content()
    execution.waiting_for_input = True
    prompt = wire.text(content, "prompt")[:_PROMPT_CHARACTERS]
    execution.output.ask(prompt, bool(content.get("password")))


def take_reply(execution: Execution) -> None:
    """Pass on what the Jupyter client of a run learns from the reply only: the values of its expressions, and requests
    such as to show a help text. Called at the end of the run, because a reply may overtake the outputs.
    """
    reply, client = execution.reply or {}, execution.request.message
    values, payload = reply.get("user_expressions"), reply.get("payload")
    if client is None or not (isinstance(values, dict) and isinstance(payload, list)):
        return
    known = {name: values[name] for name in client.expressions if isinstance(values.get(name), dict)}
    asked = [item for item in payload[:_PAYLOADS] if isinstance(item, dict)]
    if known or asked:
        execution.output.reply(known, asked, execution.reply_bytes)


def _rich(content: dict[str, Any]) -> dict[str, Any]:
    metadata = wire.display_metadata(content)
    return {"mime": wire.mime(content), **({"metadata": metadata} if metadata else {})}


def _display(content: dict[str, Any]) -> dict[str, Any]:
    fields = _rich(content)
    identity = wire.display_id(content)
    if identity is not None:
        fields["displayId"] = identity
    return fields
