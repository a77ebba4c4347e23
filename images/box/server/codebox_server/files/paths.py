"""Converts a path in a request to a path in the file system of the box."""

from __future__ import annotations

import os

from codebox_server.bounds import PATH_BYTES
from codebox_server.errors import BoxError


def resolve(root: str, path: str) -> str:
    """Return the absolute path for one relative to `root`, which is the empty path; an absolute one leads anywhere in
    the box. Raises invalid_request.

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
    if path == "/":
        return path
    if any(segment in ("", ".", "..") for segment in path.removeprefix("/").split("/")):
        raise BoxError("invalid_request", "a path must not have empty, . or .. segments")
    return os.path.join(root, path)


def prefix_of(path: str) -> str:
    """Return what the paths in a folder begin with."""
    return path if path in ("", "/") else path + "/"
