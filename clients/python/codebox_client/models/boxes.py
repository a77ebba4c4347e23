# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model


class Startup(Model):
    """
    `warm` when the instance had been started before the request; and the time from the request until the box was ready.
    """

    kind: Literal["warm", "cold"]
    ms: int


class BoxCause(Model):
    code: Literal[
        "deleted",
        "idle",
        "expired",
        "start_failed",
        "cpu_limit",
        "instance_lost",
        "unresponsive",
        "memory_limit",
        "evicted",
        "preempted",
        "node_lost",
        "unschedulable",
        "image_unavailable",
        "gpu_unavailable",
        "volume_missing",
    ]
    detail: str


class Cpu(Model):
    limit_cpus: float
    limit_ms: int | None
    """
    The total that it may use (cpuSeconds); null without a limit.
    """
    used_ms: int
    """
    CPU time of all its processes since the box was started; with cpuSeconds, since it was ready to use.
    """


class Disk(Model):
    """
    The volume of the box; null when the box does not respond.
    """

    limit_bytes: int
    used_bytes: int


class Memory(Model):
    limit_bytes: int
    peak_bytes: int | None
    """
    Peak memory so far, including page cache; null if the host does not report it.
    """
    used_bytes: int
    """
    Memory in use, without page cache that can be dropped.
    """


class Pids(Model):
    """
    Processes and threads.
    """

    count: int
    limit: int


class BoxStats(Model):
    at: AwareDatetime
    """
    When it was measured.
    """
    cpu: Cpu
    disk: Disk | None
    """
    The volume of the box; null when the box does not respond.
    """
    memory: Memory
    oom_kills: int | None
    """
    Processes that were killed because memory ran out; null where the host does not count them.
    """
    pids: Pids
    """
    Processes and threads.
    """


class BoxVolume(Model):
    name: str
    path: str
    read_only: bool
    volume: str


class Checkpoint(Model):
    """
    When the files of the box were last stored outside it, and how many bytes they take there.
    """

    at: AwareDatetime
    size_bytes: int


class Context(Model):
    created_at: AwareDatetime
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself.
    """
    default: bool
    """
    Whether executions that name only its language run here.
    """
    id: str
    language: str
    last_activity_at: AwareDatetime
    state: Literal["starting", "idle", "busy", "dead"]


class Limits(Model):
    model_config = ConfigDict(
        extra="forbid",
    )
    cpu_seconds: float | None = None
    """
    CPU time of everything in the box over its whole life, including its start (some seconds); without it there is no limit. Once it is spent, runs end with cause cpu_limit and new ones are refused (403 cpu_limit); files stay accessible. A box that uses 5 s plus 10 % more is deleted.
    """
    cpus: float
    """
    Number of CPUs; a fraction is a share of one CPU.
    """
    disk_mb: int
    """
    The volume that holds the working folder and the home folder.
    """
    memory_mb: int
    """
    Memory in MiB, page cache included; no swap.
    """
    pids: int
    """
    Processes and threads.
    """


NetworkPolicy = TypeAliasType("NetworkPolicy", Literal["none", "internet"])


OnIdle = TypeAliasType("OnIdle", Literal["delete", "pause", "hibernate"])
"""
What happens to an idle box: it is deleted with its files, it is frozen with its variables, or only its files are kept.
"""


class Package(Model):
    name: str
    source: Literal["image", "user"]
    """
    Whether it came with the box or was installed in it.
    """
    version: str


class Variable(Model):
    length: int | None = None
    name: str
    preview: str
    """
    The beginning of the value as text, or its class when it cannot be shown.
    """
    shape: list[int] | None = None
    """
    The shape of an array or a table.
    """
    size_bytes: int | None = None
    """
    The size of the object itself, without the objects that it refers to.
    """
    type: str
    """
    The name of its class.
    """


class Box(Model):
    cause: BoxCause | None = None
    checkpoint: Checkpoint | None
    continuity: Literal["new", "reused", "restored", "lost"]
    """
    What the caller gets: a new box, the same box as before, a box with the earlier files but without the earlier variables (since `restoredAt`), or a box whose files and variables are lost.
    """
    created_at: AwareDatetime
    expires_at: AwareDatetime
    id: str
    idle_seconds: int
    last_active_at: AwareDatetime
    limits: Limits
    metadata: dict[str, str]
    name: str | None
    network: NetworkPolicy
    on_idle: OnIdle
    restored_at: AwareDatetime | None
    startup: Startup | None
    """
    `warm` when the instance had been started before the request; and the time from the request until the box was ready.
    """
    state: Literal["creating", "ready", "paused", "hibernated", "deleting", "deleted", "failed", "lost"]
    template: str
    user: str | None
    volumes: Annotated[list[BoxVolume], Field(validate_default=True)] = []
