"""Puts the packages that a box has installed before those of the image, in every Python of the image."""

from __future__ import annotations

import site
import sys


def first() -> None:
    """Let the interpreter, which is starting, add the user's folder before the others. `codebox.pth` calls this."""
    add = site.addusersitepackages

    def add_first(known_paths: set[str]) -> set[str]:
        known = add(known_paths)
        user_first()
        return known

    site.addusersitepackages = add_first


def user_first() -> None:
    """Move the user's folder, if it is on the path, before the first other folder of packages."""
    folder = site.getusersitepackages()
    if folder not in sys.path:
        return
    sys.path.remove(folder)
    place = next((at for at, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
    sys.path.insert(place, folder)
