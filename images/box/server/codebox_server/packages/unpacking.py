"""Where pip unpacks. The pip of the image calls this at its start."""

from __future__ import annotations

import os


def unpack_on_volume() -> None:
    """Make pip and its compilers use a folder on the volume, unless the user has chosen one."""
    if os.environ.get("TMPDIR"):
        return
    folder = os.path.expanduser("~/.cache/pip-unpacked")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        # Code of the box may have put something else there.
        return
    os.environ["TMPDIR"] = folder
