"""Runs an action once a module has been imported: at once if it has been already."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

Action = Callable[[Any], None]


def after_import(name: str, act: Action) -> None:
    """Call `act(module)` once, without importing the module. Exceptions of `act` do not reach the importer."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Watcher(name, act))
    else:
        _attempt(act, module)


class _Watcher:
    """Waits for one module and then removes itself."""

    def __init__(self, name: str, act: Action) -> None:
        self._name = name
        self._act = act

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the module's own spec, with the action after its execution; None for every other module."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _attempt(self._act, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attempt(act: Action, module: Any) -> None:
    # The library may have an unexpected version; the user's import has succeeded anyway.
    with contextlib.suppress(Exception):
        act(module)
