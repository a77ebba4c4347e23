# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model


class Quota(Model):
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """

    limit: int
    name: str
    used: int


class Cause(Model):
    code: str
    """
    timeout (stage is what it took to stop the run); cpu_limit (the status is timeout; with quota if it was the daily quota of the tenant, over all its boxes); output_limit; interrupted; signal (signal is its name); exit (exitCode is its code); oom (process is the one that ran out of memory); disk_full (usedBytes and limitBytes of the volume); pids_limit (the run filled the box with processes, and what it left running was ended); kernel_start (the kernel did not start or did not respond in time: no code has run); restarted, context_deleted (the context was restarted or deleted); box_… (the box has ended: box_deleted, box_idle, box_lost, box_memory_limit, box_unresponsive, …); not_started (none of the code has run or will run: retry); journal_lost, protocol_error, no_end (the box did not report the end); internal (the kernel or the box server failed, not the code; the status is killed).
    """
    detail: str
    exit_code: int | None = None
    limit_bytes: int | None = None
    """
    The limit of memory for oom, of the volume for disk_full.
    """
    peak_memory_bytes: int | None = None
    """
    The peak memory of the whole box until then.
    """
    process: Literal["kernel", "command", "child"] | None = None
    """
    Which process ran out of memory: the kernel with the variables, the command, or another process.
    """
    quota: Quota | None = None
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """
    signal: str | None = None
    stage: Literal["interrupt", "restart", "box"] | None = None
    """
    What it took to stop the run: an interrupt, a new kernel, or the end of the box.
    """
    used_bytes: int | None = None


class ChangedFiles(Model):
    complete: bool | None = None
    created: list[str]
    deleted: list[str]
    modified: list[str]


class FileEntry(Model):
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    etag: str | None = None
    metadata: dict[str, str] | None = None
    """
    What a client of the dialect e2b has noted about the file.
    """
    mode: int | None = None
    """
    The permission bits, as a number.
    """
    modified_at: AwareDatetime
    name: str
    path: str
    """
    Relative to /mnt/data.
    """
    size_bytes: int
    target: str | None = None
    """
    Where a symbolic link leads, as an absolute path.
    """
    type: Literal["file", "directory", "symlink", "other"]


class SearchMatch(Model):
    column: int | None = None
    """
    The position of the first match, in bytes, from 1.
    """
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    line: int | None = None
    path: str
    text: str | None = None
    """
    The line, cut to 400 bytes.
    """
    type: Literal["file", "directory", "symlink", "other"] | None = None


class WatchEnd(Model):
    """
    The last event: the box has ended.
    """

    cause: Cause
    type: Literal["end"]
    version: int


class WatchReady(Model):
    """
    The first event: all following changes happened after this version.
    """

    complete: bool
    """
    False when there are more folders than can be watched.
    """
    mode: Literal["inotify", "polling"]
    type: Literal["ready"]
    version: int


class WatchRemove(Model):
    path: str
    type: Literal["remove"]
    version: int


class WatchRename(Model):
    """
    A folder moves with its contents; an earlier entry at `path` is replaced.
    """

    entry: FileEntry | None = None
    from_: str
    path: str
    type: Literal["rename"]
    version: int


class WatchReset(Model):
    """
    Changes are missing: list the folder anew. Either the changes after `after` are no longer known; or the reader was too slow, and the stream ends; or there are more folders than can be watched; or a scan failed.
    """

    reason: Literal["forgotten", "slow", "limit", "lost"]
    type: Literal["reset"]
    version: int


class WatchWrite(Model):
    entry: FileEntry | None = None
    path: str
    type: Literal["create", "write"]
    version: int


WatchEvent = TypeAliasType(
    "WatchEvent",
    Annotated[
        WatchReady | WatchWrite | WatchRemove | WatchRename | WatchReset | WatchEnd,
        Field(discriminator="type"),
    ],
)
