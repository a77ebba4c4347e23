# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model, WithOutputs, WithStreams

from . import causes, commands, filesystem, hints, outcomes


class ExecutionClear(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["clear"]
    wait: bool


class ExecutionDisplay(Model):
    display_id: str | None = None
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["display"]


class ExecutionDisplayUpdate(Model):
    display_id: str
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["display_update"]


class ExecutionInputRequest(Model):
    password: bool
    prompt: str
    seq: int
    type: Literal["input_request"]


class ExecutionReply(Model):
    """
    What a Jupyter client learns from the reply of its kernel: the values of its expressions, and requests such as to show a help text.
    """

    expressions: dict[str, dict[str, Any]]
    payload: list[dict[str, Any]]
    seq: int
    type: Literal["reply"]


class ExecutionResult(Model):
    main: Literal[True]
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    seq: int
    type: Literal["result"]


class ExecutionStarted(Model):
    context: str
    execution: str | None = None
    """
    The id of the execution, with which its events can be read again.
    """
    execution_count: int | None = None
    language: str
    seq: int
    type: Literal["started"]


class ExecutionStderr(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    text: str
    type: Literal["stderr"]


class ExecutionStdout(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    text: str
    type: Literal["stdout"]


class RunFile(Model):
    base64: str | None
    """
    Null for a file over 4 MiB, or beyond 16 MiB in total, and with `"returnFiles": "names"`.
    """
    change: Literal["created", "modified"]
    path: str
    size_bytes: int


class ExecutionDone(Model):
    cause: causes.Cause | None = None
    cpu_ms: float | None = None
    duration_ms: float
    execution_count: int | None = None
    files: filesystem.ChangedFiles | None = None
    peak_memory_bytes: int | None = None
    processes: outcomes.LeftProcesses | None = None
    queued_ms: float | None = None
    seq: int
    state_lost: bool
    """
    Whether the variables of the context are lost.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    type: Literal["done"]


class ExecutionInstall(Model):
    exit_code: int | None
    manager: hints.PackageManager
    packages: list[outcomes.InstalledPackage]
    seq: int
    text: str
    type: Literal["install"]


class ExecutionSummary(Model):
    box: str
    cause: causes.Cause | None = None
    context: str | None
    cpu_ms: float | None
    created_at: AwareDatetime
    duration_ms: float | None
    execution_count: int | None
    files: filesystem.ChangedFiles | None
    finished_at: AwareDatetime | None
    id: str
    language: str | None
    last_seq: int
    peak_memory_bytes: int | None
    processes: outcomes.LeftProcesses
    queued_ms: float | None
    started_at: AwareDatetime | None
    """
    Null while it waits for others in its context.
    """
    state_lost: bool
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]


class ExecutionError(Model):
    hint: hints.Hint | None = None
    name: str
    seq: int
    traceback: list[str]
    type: Literal["error"]
    value: str


ExecutionEvent = TypeAliasType(
    "ExecutionEvent",
    Annotated[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | outcomes.OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone,
        Field(discriminator="type"),
    ],
)


class RunError(Model):
    hint: hints.Hint | None = None
    name: str
    traceback: list[str]
    value: str


class RunStepResult(Model):
    cause: causes.Cause | None = None
    cpu_ms: float | None
    """
    CPU time of the run; null if the box does not report it.
    """
    duration_ms: float
    error: RunError | None
    exit_code: int | None
    """
    The exit code of a program; null for code in a kernel.
    """
    outputs: list[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | outcomes.OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone
        | commands.CommandStarted
        | commands.CommandStdout
        | commands.CommandStderr
        | commands.NotebookCell
        | commands.CommandDone
    ]
    signal: str | None
    """
    The signal that ended a program, such as SIGSEGV; null for code in a kernel.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str
    text: str | None


class Execution(WithStreams):
    box: str
    cause: causes.Cause | None = None
    context: str | None
    cpu_ms: float | None
    created_at: AwareDatetime
    duration_ms: float | None
    error: RunError | None
    execution_count: int | None
    files: filesystem.ChangedFiles | None
    finished_at: AwareDatetime | None
    id: str
    language: str | None
    last_seq: int
    outputs: list[ExecutionEvent] | None
    """
    All outputs in order: every event except started and done. Null when the box no longer has them.
    """
    peak_memory_bytes: int | None
    processes: outcomes.LeftProcesses
    queued_ms: float | None
    started_at: AwareDatetime | None
    """
    Null while it waits for others in its context.
    """
    state_lost: bool
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    text: str | None
    """
    The plain text of the main result.
    """


class Run(WithOutputs):
    cause: causes.Cause | None = None
    cpu_ms: float | None
    """
    CPU time of the run; null if the box does not report it.
    """
    duration_ms: float
    error: RunError | None
    exit_code: int | None
    """
    The exit code of a program; null for code in a kernel.
    """
    files: list[RunFile]
    """
    Files that the run created or changed.
    """
    outputs: list[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | outcomes.OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone
        | commands.CommandStarted
        | commands.CommandStdout
        | commands.CommandStderr
        | commands.NotebookCell
        | commands.CommandDone
    ]
    signal: str | None
    """
    The signal that ended a program, such as SIGSEGV; null for code in a kernel.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str
    steps: list[RunStepResult] | None = None
    """
    For a request with `steps`: the result of each step that ran. The other fields are those of the last.
    """
    text: str | None
