"""The keyword arguments of calls. The gateway's default applies to those that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from pydantic.alias_generators import to_camel


class CallOptions(TypedDict, total=False):
    """
    How a call is made.

    ``idempotency_key`` makes it safe to repeat by another process too; by default each call has a new key. After
    ``deadline_seconds`` without a response it raises ``timeout``; what it has started continues.
    """

    idempotency_key: str
    deadline_seconds: float


class Limits(TypedDict, total=False):
    """The limits of a box."""

    cpus: float
    memory_mb: int
    disk_mb: int
    pids: int
    cpu_seconds: float


class InlineFile(TypedDict, total=False):
    """A file of a new box or run: its ``path``, and either ``text``, ``base64`` or ``url``."""

    path: str
    text: str
    base64: str
    url: str


class MountVolume(TypedDict, total=False):
    """A volume of a new box: its id or name in ``volume``. By default it is at ``/volumes`` under its name."""

    volume: str
    path: str
    read_only: bool


class VolumeOptions(TypedDict, total=False):
    """How a volume is created."""

    user: str
    size_mb: int


Network = Literal["none", "internet"]
OnIdle = Literal["delete", "pause", "hibernate"]


class BoxOptions(CallOptions, total=False):
    """How a box is created. With ``reuse`` or ``name``, the living box of ``user`` is returned when there is one."""

    template: str
    user: str
    name: str
    reuse: bool
    env: Mapping[str, str]
    metadata: Mapping[str, str]
    limits: Limits
    network: Network
    idle_seconds: int
    max_lifetime_seconds: int
    on_idle: OnIdle
    volumes: Sequence[MountVolume]
    files: Sequence[InlineFile]
    packages: Sequence[str]


class BoxChanges(TypedDict, total=False):
    """The properties of a box that can be changed."""

    metadata: Mapping[str, str]
    idle_seconds: int
    max_lifetime_seconds: int
    on_idle: OnIdle
    network: Network


class TemplatePackages(TypedDict, total=False):
    """Packages of a template, by package manager."""

    pip: Sequence[str]
    npm: Sequence[str]


class BuildOptions(CallOptions, total=False):
    """What a template is built from, and the settings of boxes from it."""

    env: Mapping[str, str]
    files: Sequence[InlineFile]
    packages: TemplatePackages
    commands: Sequence[str]
    build_network: Network
    build_seconds: int
    limits: Limits
    network: Network
    idle_seconds: int
    max_lifetime_seconds: int
    warm: int


class ExecutionOptions(CallOptions, total=False):
    """How code runs: in the default context of ``language``, or in ``context``."""

    language: str
    context: str
    timeout_seconds: float
    cpu_seconds: float
    env: Mapping[str, str]
    auto_install: bool
    files: Sequence[InlineFile]


class CommandOptions(CallOptions, total=False):
    """How a command runs. ``stdin`` is written and closed; ``open_stdin`` keeps stdin open for ``input``."""

    cwd: str
    env: Mapping[str, str]
    timeout_seconds: float
    cpu_seconds: float
    stdin: str
    open_stdin: bool


class NotebookOptions(CallOptions, total=False):
    """How a notebook runs."""

    output: str
    parameters: Mapping[str, Any]
    on_error: Literal["stop", "continue"]
    language: str
    cell_timeout_seconds: float
    timeout_seconds: float


class InstallOptions(CallOptions, total=False):
    """How packages are installed."""

    manager: Literal["pip", "npm"]
    timeout_seconds: float


class ContextOptions(CallOptions, total=False):
    """How a kernel is started."""

    language: str
    cwd: str
    python: str
    env: Mapping[str, str]


class RunStep(TypedDict, total=False):
    """One step of a run: ``code``, or a process by ``command`` or ``argv``."""

    code: str
    language: str
    auto_install: bool
    command: str
    argv: Sequence[str]
    cwd: str
    stdin: str
    env: Mapping[str, str]
    timeout_seconds: float
    cpu_seconds: float


class StepsOptions(CallOptions, total=False):
    """The fresh box in which steps run, and which of the changed files are returned."""

    files: Sequence[InlineFile]
    limits: Limits
    template: str
    network: Network
    packages: Sequence[str]
    return_files: Literal["none", "names", "content"]


class RunOptions(StepsOptions, total=False):
    """How code runs once in a fresh box. With ``files``, ``stdin`` or ``args`` it runs as a program."""

    language: str
    stdin: str
    args: Sequence[str]
    env: Mapping[str, str]
    auto_install: bool
    timeout_seconds: float
    cpu_seconds: float


class LinkOptions(TypedDict, total=False):
    """What a link permits: to read a file, or to write it with ``method`` ``PUT``."""

    method: Literal["GET", "PUT"]
    once: bool
    expires_in_seconds: int
    max_bytes: int
    download: str


class ExportFile(TypedDict, total=False):
    """A file, and the URL that takes it by PUT, with the ``headers`` that it needs."""

    path: str
    url: str
    headers: Mapping[str, str]


class S3Target(TypedDict, total=False):
    """A bucket, and keys that may write to it."""

    bucket: str
    prefix: str
    region: str
    endpoint: str
    access_key_id: str
    secret_access_key: str
    session_token: str


class ExportOptions(CallOptions, total=False):
    """What is exported: ``files`` with a URL each, or ``paths`` of files and folders to ``s3``."""

    files: Sequence[ExportFile]
    paths: Sequence[str]
    s3: S3Target
    timeout_seconds: int
    detach: bool


WebhookType = Literal["execution.ended", "box.ended", "export.ended", "quota.exceeded"]


class WebhookChanges(TypedDict, total=False):
    """The properties of a webhook that can be changed."""

    types: Sequence[WebhookType]
    enabled: bool


class Quotas(TypedDict, total=False):
    """The limits of a tenant; None means no limit."""

    boxes: int | None
    concurrent_executions: int | None
    cpu_seconds_per_day: int | None
    storage_mb: int | None
    requests_per_minute: int | None
    templates: int | None


class TenantOptions(CallOptions, total=False):
    """How a tenant is created."""

    quotas: Quotas


class TenantChanges(TypedDict, total=False):
    """The properties of a tenant that can be changed."""

    name: str
    state: Literal["active", "suspended"]
    quotas: Quotas


Scope = Literal["boxes:read", "boxes:write", "run", "files", "usage"]


class KeyOptions(TypedDict, total=False):
    """What a key permits, by default everything, and how long it is valid, by default for ever."""

    scopes: Sequence[Scope]
    expires_in_seconds: int


class RotationOptions(TypedDict, total=False):
    """How long the old key stays valid, and the new one."""

    overlap_seconds: int
    expires_in_seconds: int


DATA = {"env", "metadata", "parameters", "headers"}
"""The options whose keys are data of the caller."""


def to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of options: keys in camelCase, without what belongs to the request. Keys of data stay as they are."""
    given = {name: value for name, value in options.items() if name not in CallOptions.__annotations__}
    return {to_camel(name): _renamed(name, value) for name, value in given.items() if value is not None}


def _renamed(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and name not in DATA:
        return {to_camel(key): _renamed(key, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(name, part) for part in value]
    return value
