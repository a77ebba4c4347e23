"""Installed packages by name and version, read from the package folders."""

from __future__ import annotations

import contextlib
import json
import os
import re
import site
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from codebox_server.bounds import PACKAGE_ENTRIES, PACKAGE_FIELD

_DISTRIBUTION = re.compile(r"(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_MANIFEST_BYTES = 1024 * 1024
# pandas looks for these once, when it is imported, which happens before a kernel is forked.
_LOOKED_FOR_ONCE = ("bottleneck", "numexpr", "pyarrow")


class Inventory:
    """Reads folders instead of asking the interpreter, so it includes packages installed after this process started."""

    def __init__(self, user_site: Path, project: Path) -> None:
        self._user_site = user_site
        self._modules = project / "node_modules"

    def user(self, manager: str) -> dict[str, str]:
        """Return versions by name of packages installed in this box."""
        return dict(_distributions(self._user_site) if manager == "pip" else _node_packages(self._modules))

    def image(self) -> dict[str, str]:
        """Return versions by name of the Python packages of the image."""
        return {name: version for folder in site.getsitepackages() for name, version in _distributions(Path(folder))}

    def fixed(self) -> set[str]:
        """Return the names of the packages of the image that kernels run on, of which a box can install no others."""
        with contextlib.suppress(OSError), open(f"{sys.prefix}/share/kernel-packages.txt") as file:
            return {normal(line.partition("==")[0]) for line in file}
        return set()

    def shadows(self) -> bool:
        """Whether this box has installed packages that a kernel with its libraries loaded would not use."""
        installed = self.user("pip")
        return bool(installed and unused(self.image(), installed))

    def items(self, manager: str) -> list[dict[str, str]]:
        """Return `{name, version, source}` by name; `source` is `user` or `image`, and the version of the user takes
        precedence.
        """
        known: dict[str, dict[str, str]] = {}
        for name, version in self.image().items() if manager == "pip" else ():
            known[name] = {"name": name, "version": version, "source": "image"}
        for name, version in self.user(manager).items():
            known[name] = {"name": name, "version": version, "source": "user"}
        return [known[name] for name in sorted(known)]

    def has_module(self, manager: str, name: str) -> bool:
        """Whether the top-level module of an import is installed."""
        if manager == "npm":
            return (self._modules / name).is_dir()
        folders = [self._user_site, *map(Path, site.getsitepackages())]
        return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in folders)


def normal(name: str) -> str:
    """Return the normalized name of a Python package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unused(image: dict[str, str], installed: dict[str, str]) -> dict[str, str]:
    """Return those of the installed packages that a kernel with its libraries loaded does not use: other versions of
    those of the image, and those that a library has looked for in vain.
    """
    return {
        name: version
        for name, version in installed.items()
        if image.get(name, None if name in _LOOKED_FOR_ONCE else version) != version
    }


def changes(before: dict[str, str], after: dict[str, str]) -> list[dict[str, str]]:
    """Return `{name, version}` of new packages and other versions, by name."""
    return [{"name": name, "version": after[name]} for name in sorted(after) if before.get(name) != after[name]]


def _distributions(folder: Path) -> Iterator[tuple[str, str]]:
    for entry in _entries(folder):
        match = _DISTRIBUTION.fullmatch(entry.name)
        if match and len(entry.name) <= PACKAGE_FIELD:
            yield normal(match["name"]), match["version"]


def _node_packages(folder: Path) -> Iterator[tuple[str, str]]:
    for entry in _entries(folder):
        if entry.name.startswith("@"):
            for scoped in _entries(Path(entry.path)):
                yield from _node_package(f"{entry.name}/{scoped.name}", scoped.path)
        elif not entry.name.startswith("."):
            yield from _node_package(entry.name, entry.path)


def _node_package(name: str, folder: str) -> Iterator[tuple[str, str]]:
    path = os.path.join(folder, "package.json")
    # Invalid entries are skipped: code of the box may have put anything here.
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if not os.path.isfile(path) or os.path.getsize(path) > _MANIFEST_BYTES or len(name) > PACKAGE_FIELD:
            return
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        version = manifest.get("version") if isinstance(manifest, dict) else None
        if isinstance(version, str) and len(version) <= PACKAGE_FIELD:
            yield name, version


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, PACKAGE_ENTRIES))
    except OSError:
        # A missing folder has no packages.
        return []
