# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from codebox_client._model import Model


class ExportFailure(Model):
    code: Literal[
        "not_found",
        "too_large",
        "too_many_files",
        "refused",
        "unreachable",
        "box_unavailable",
        "timeout",
        "canceled",
        "interrupted",
        "internal",
    ]
    """
    `refused`: the store responded with an error; `unreachable`: it did not respond, or is at an address that may not be reached; `interrupted`: the gateway ended meanwhile.
    """
    detail: str
    path: str | None
    """
    The file or folder that failed, if it was one.
    """


class ExportSummary(Model):
    box: str
    created_at: AwareDatetime
    ended_at: AwareDatetime | None
    failure: ExportFailure | None
    file_count: int
    """
    How many files have arrived, each as a whole.
    """
    id: str
    size_bytes: int
    """
    The size of these files.
    """
    skipped: int
    """
    Entries of folders that are no files, such as symbolic links.
    """
    state: Literal["running", "done", "failed"]
    to: str | None
    """
    The URL of the bucket and its folder; null for an export to URLs.
    """


class ExportedFile(Model):
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    etag: str | None
    """
    The ETag that the store returned.
    """
    key: str | None
    """
    Its key in the bucket.
    """
    path: str
    size_bytes: int


class Export(Model):
    box: str
    created_at: AwareDatetime
    ended_at: AwareDatetime | None
    failure: ExportFailure | None
    file_count: int
    """
    How many files have arrived, each as a whole.
    """
    files: list[ExportedFile]
    """
    The files that have arrived, once the export has ended. They are fewer than `fileCount` if their list would have more than 1 MiB, or if the gateway that exported them ended.
    """
    id: str
    size_bytes: int
    """
    The size of these files.
    """
    skipped: int
    """
    Entries of folders that are no files, such as symbolic links.
    """
    state: Literal["running", "done", "failed"]
    to: str | None
    """
    The URL of the bucket and its folder; null for an export to URLs.
    """
