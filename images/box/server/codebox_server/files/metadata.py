"""What clients note about a file, as text in its extended attributes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping

from codebox_server.bounds import METADATA_BYTES, METADATA_ENTRIES
from codebox_server.errors import BoxError

# The names that clients of E2B expect.
_PREFIX = "user.e2b."
_HEADER_PREFIX = "x-metadata-"


def metadata_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the headers `X-Metadata-*` of an upload by the rest of their names, in lower case."""
    named = {name.lower(): value for name, value in headers.items()}
    return {name[len(_HEADER_PREFIX) :]: named[name] for name in named if name.startswith(_HEADER_PREFIX)}


def read_metadata(place: str) -> dict[str, str]:
    """Return what is noted about a file; of a link, nothing."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for name in os.listxattr(place, follow_symlinks=False):
            if not name.startswith(_PREFIX) or len(found) >= METADATA_ENTRIES:
                continue
            value = os.getxattr(place, name, follow_symlinks=False)
            if len(value) <= METADATA_BYTES:
                shown = os.fsencode(name[len(_PREFIX) :]).decode("utf-8", "replace")
                found[shown] = value.decode("utf-8", "replace")
    return found


def write_metadata(fd: int, metadata: Mapping[str, str]) -> None:
    """Note this about a file. Raises invalid_request for too much of it, and where the file system keeps none."""
    if len(metadata) > METADATA_ENTRIES or any(len(value) > METADATA_BYTES for value in metadata.values()):
        raise BoxError("invalid_request", "the file has too much metadata")
    try:
        for name, value in metadata.items():
            os.setxattr(fd, _PREFIX + name, value.encode())
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise BoxError("invalid_request", "files at this path cannot have metadata") from None
        if error.errno in (errno.E2BIG, errno.ENOSPC, errno.ERANGE):
            raise BoxError("invalid_request", "the file has too much metadata") from None
        raise
