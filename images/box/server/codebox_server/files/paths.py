"""Converts a path in a URL to a path in the working folder."""

from __future__ import annotations

import os

from codebox_server.bounds import PATH_BYTES
from codebox_server.errors import BoxError


def resolve(root: str, path: str) -> str:
    """Return the absolute path for a relative one; the empty path is the root. Raises invalid_request.

    Links are followed when the path is used: the server sees what code of the box sees and nothing more. Bytes that
    are not UTF-8 are lone surrogates, as everywhere in Python.
    """
    if not path:
        return root
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise BoxError("invalid_request", "a path must not have surrogates that represent no byte") from None
    if len(raw) > PATH_BYTES or "\0" in path:
        raise BoxError("invalid_request", f"a path must not have NUL and may have at most {PATH_BYTES} bytes")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise BoxError("invalid_request", "a path must not have empty, . or .. segments")
    return os.path.join(root, path)
