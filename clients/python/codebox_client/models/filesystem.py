# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model

from . import causes


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

    cause: causes.Cause
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
