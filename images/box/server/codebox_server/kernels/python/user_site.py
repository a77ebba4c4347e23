"""Makes packages that are installed while a kernel runs importable in it at once."""

from __future__ import annotations

import importlib
import os
import site
import sys
from collections.abc import Callable

from codebox_server.packages.precedence import user_first


def create_refresh() -> Callable[[], None]:
    """Create a function to call before each cell: it checks whether packages were installed since the last call."""
    folder = site.getusersitepackages()
    seen = _changed_at(folder)

    def refresh() -> None:
        nonlocal seen
        changed = _changed_at(folder)
        if changed == seen:
            return
        seen = changed
        # Python adds the folder to its path only when it exists at the start.
        if folder not in sys.path:
            sys.path.append(folder)
            user_first()
        # Folders that several packages share are searched again only after this.
        importlib.invalidate_caches()

    return refresh


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0
