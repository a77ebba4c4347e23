# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model

from . import causes, filesystem, hints, outcomes


class CommandStarted(Model):
    command: str | None = None
    """
    The id of the command, with which its events can be read again.
    """
    pid: int
    seq: int
    type: Literal["started"]


class CommandStderr(Model):
    seq: int
    text: str
    type: Literal["stderr"]


class CommandStdout(Model):
    seq: int
    text: str
    type: Literal["stdout"]


class NotebookCell(Model):
    """
    A code cell of a notebook begins or has ended.
    """

    cells: int
    """
    How many cells the notebook has, those with text included.
    """
    duration_ms: float | None = None
    execution_count: int | None = None
    id: str | None
    index: int
    """
    The place of the cell among all cells of the notebook, from 0.
    """
    outputs: list[dict[str, Any]] | None = None
    """
    The outputs of a cell that has ended, as in the file; null when they are larger than 1 MiB, and then only the file has them.
    """
    seq: int
    status: Literal["running", "ok", "error"]
    type: Literal["cell"]


class CommandDone(Model):
    cause: causes.Cause | None = None
    cpu_ms: float | None = None
    duration_ms: float
    exit_code: int | None
    files: filesystem.ChangedFiles | None = None
    hint: hints.InstallationHint | None = None
    installed: list[outcomes.InstalledPackage] | None = None
    """
    Packages that an installation added or changed.
    """
    processes: outcomes.LeftProcesses | None = None
    seq: int
    signal: str | None
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    type: Literal["done"]


CommandEvent = TypeAliasType(
    "CommandEvent",
    Annotated[
        CommandStarted | CommandStdout | CommandStderr | NotebookCell | outcomes.OutputTruncated | CommandDone,
        Field(discriminator="type"),
    ],
)


class CommandSummary(Model):
    argv: list[str] | None
    box: str
    cause: causes.Cause | None = None
    command: str | None
    cpu_ms: float | None
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    duration_ms: float | None
    exit_code: int | None
    files: filesystem.ChangedFiles | None
    hint: hints.InstallationHint | None = None
    id: str
    installed: list[outcomes.InstalledPackage] | None = None
    """
    For an installation: the packages that it added or changed.
    """
    last_seq: int
    pid: int | None
    processes: outcomes.LeftProcesses
    signal: str | None
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]


class Command(Model):
    argv: list[str] | None
    box: str
    cause: causes.Cause | None = None
    command: str | None
    cpu_ms: float | None
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    duration_ms: float | None
    exit_code: int | None
    files: filesystem.ChangedFiles | None
    hint: hints.InstallationHint | None = None
    id: str
    installed: list[outcomes.InstalledPackage] | None = None
    """
    For an installation: the packages that it added or changed.
    """
    last_seq: int
    outputs: list[CommandEvent]
    """
    Both streams in order: every event except started and done.
    """
    pid: int | None
    processes: outcomes.LeftProcesses
    signal: str | None
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str
