"""Finds the package that would make a failed import work."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from codebox_server.packages.conflicts import conflict_hint
from codebox_server.packages.inventory import Inventory
from codebox_server.packages.names import SHARED, distribution_of

_PYTHON_NAME = re.compile(r"No module named '((?:[^\W\d]\w*\.)*[^\W\d]\w*)'")
_NODE_NAME = re.compile(
    r"Cannot find (?:module|package) '((?:@[a-z0-9~-][\w.~-]*/)?[A-Za-z0-9~-][\w.~-]*)(?:/[^'\n]*)?'"
)
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?[ \t\n]*(\w+)", re.MULTILINE)
_IMPORT = re.compile(r"\bimport[ \t]+([\w.]+)")
# What the loader of Linux says, also for a library whose name a program has made up.
_LIBRARY = re.compile(r"(lib[\w.+-]{1,100}): cannot open shared object file")
_NAME_CHARACTERS = 200
_MANAGERS = {"python": "pip", "javascript": "npm", "typescript": "npm"}


class Hints:
    """Reads the errors of programs. `data` is the working folder, whose modules belong to the program itself."""

    def __init__(self, inventory: Inventory, data: Path) -> None:
        self._inventory = inventory
        self._data = data

    def of(self, language: str, code: str, name: str, value: str) -> dict[str, Any] | None:
        """Return the hint for an error `name: value` of `code`: `{code, manager, package, module, detail}`, or None."""
        manager = _MANAGERS.get(language)
        if manager is None or len(value) > 10_000:
            return None
        found = self._python(code, name, value) if manager == "pip" else self._node(value)
        if found is None:
            return None
        module, package = found
        detail = f"{module} is not installed here; the package {package} provides it."
        return {"code": "install_package", "manager": manager, "package": package, "module": module, "detail": detail}

    def of_library(self, value: str) -> dict[str, Any] | None:
        """Return the hint `{code, library, detail}` for an error that a missing library of the system has caused."""
        found = _LIBRARY.search(value[:10_000])
        if found is None:
            return None
        detail = (
            f"{found[1]} is a library of the system, which this box lacks. Neither pip nor apt can install it here: "
            "use a template whose image has it. That of `full` has many more libraries than that of `python`."
        )
        return {"code": "missing_library", "library": found[1], "detail": detail}

    def of_conflict(self, package: str | None) -> dict[str, Any] | None:
        """See `conflict_hint`."""
        return conflict_hint(self._inventory, package)

    def _python(self, code: str, name: str, value: str) -> tuple[str, str] | None:
        match = _PYTHON_NAME.fullmatch(value) if name == "ModuleNotFoundError" else None
        if match is None or len(match[1]) > _NAME_CHARACTERS:
            return None
        module = match[1]
        top = module.split(".")[0]
        if top in sys.stdlib_module_names or top.startswith("_") or self._is_own(top):
            return None
        written = [full for full in _written(code) if full == module or full.startswith(module + ".")]
        package = distribution_of([*sorted(written, key=len, reverse=True), module])
        # A missing part of an installed package cannot be installed with it, unless many distributions share the name.
        is_there = top not in SHARED and (module != top or self._inventory.has_module("pip", top))
        return None if package is None or is_there else (module, package)

    def _node(self, value: str) -> tuple[str, str] | None:
        match = _NODE_NAME.match(value)
        if match is None or len(match[1]) > _NAME_CHARACTERS or self._inventory.has_module("npm", match[1]):
            return None
        return match[1], match[1]

    def _is_own(self, top: str) -> bool:
        return os.path.lexists(self._data / top) or os.path.lexists(self._data / f"{top}.py")


def _written(code: str) -> list[str]:
    """Return the full names of the modules that a program imports."""
    found = [f"{module}.{name}" for module, name in _FROM.findall(code)]
    return found + list(_IMPORT.findall(code))
