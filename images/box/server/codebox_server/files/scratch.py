"""Folders for what is not finished."""

from __future__ import annotations

import contextlib
import os
import threading
import time

from codebox_server.bounds import SCRATCH_SECONDS
from codebox_server.files.removal import remove_older

_NAME = ".codebox-upload"


def scratch_for(target: str, upload: str) -> str:
    """Return a folder for what is not finished, on the file system of `target`: `upload` if it is there.

    A link in the path may lead to another file system, such as that of a volume. What a box that ended has left there
    is removed after a day, when another upload uses it.
    """
    folder = os.path.dirname(target)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if os.stat(folder).st_dev == os.stat(upload).st_dev:
        return upload
    top = os.path.realpath(folder)
    while not os.path.ismount(top):
        top = os.path.dirname(top)
    scratch = os.path.join(top, _NAME)
    with contextlib.suppress(OSError):
        os.makedirs(scratch, exist_ok=True)
    # Only parts of that file system are writable, or another box of the volume has planted a link.
    if os.path.islink(scratch) or not os.access(scratch, os.W_OK | os.X_OK):
        return folder
    threading.Thread(target=_clean, args=(scratch,), daemon=True).start()
    return scratch


def _clean(scratch: str) -> None:
    with contextlib.suppress(OSError):
        remove_older(scratch, time.time() - SCRATCH_SECONDS)
