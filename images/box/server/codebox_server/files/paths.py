"""From a path in a URL to a path in the working folder."""

from __future__ import annotations

import os

from codebox_server.bounds import PATH_BYTES
from codebox_server.errors import BoxError


def resolve(root: str, path: str) -> str:
    """The absolute path for a relative one; the empty path is the root. Raises invalid_request.

    Links are followed when the path is used: the server sees what code of the box sees, no more. Bytes that are not
    UTF-8 are lone surrogates in it, as everywhere in Python.
    """
    if not path:
        return root
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise BoxError("invalid_request", "a path has no surrogates that stand for no byte") from None
    if len(raw) > PATH_BYTES or "\0" in path:
        raise BoxError("invalid_request", f"a path has no NUL and at most {PATH_BYTES} bytes")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise BoxError("invalid_request", "a path has no empty, . or .. segment")
    return os.path.join(root, path)
