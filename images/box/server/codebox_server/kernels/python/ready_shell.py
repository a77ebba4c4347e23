"""The shell of a kernel, made before the process that becomes it is forked: making one is half of a kernel's start."""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipykernel.compiler import XCachingCompiler
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.profiledir import ProfileDir
from traitlets.config import Config

_PROMPTS = ("ps1", "ps2", "ps3")
_BUILTINS = ("__IPYTHON__", "display")


@dataclass(frozen=True)
class _Ready:
    """The shell, the configuration that it was made with, and the functions that a kernel calls at its end."""

    shell: Any
    config: Config
    at_exit: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
    builtins: dict[str, Any]


_ready: _Ready | None = None


def make(config: Config) -> None:
    """Make the shell of a kernel that is forked from this process, and leave everything else here as it was."""
    global _ready
    modules, environment, register = dict(sys.modules), dict(os.environ), atexit.register
    at_exit: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
    atexit.register = lambda call, *args, **kwargs: at_exit.append((call, args, kwargs))  # type: ignore[assignment]
    try:
        # A folder that exists: the kernel has others.
        shell: Any = ZMQInteractiveShell(
            config=deepcopy(config), ipython_dir="/", profile_dir=ProfileDir(), compiler_class=XCachingCompiler
        )
        # The first cell would make the patterns and tables that these need.
        shell.compile.ast_parse(shell.transform_cell("1 + 1"))
        shell.display_formatter.format(2)
    finally:
        atexit.register = register
        sys.modules["__main__"] = modules["__main__"]
        os.environ.clear()
        os.environ.update(environment)
        for name in _PROMPTS:
            vars(sys).pop(name, None)
    added = {name: vars(builtins).pop(name) for name in _BUILTINS}
    _ready = _Ready(shell, config, at_exit, added)


def adopt(config: Config) -> Any:
    """Make the shell that of this process, for a kernel with such a configuration. Return None when there is none.

    Everything that depends on this process is determined anew.
    """
    if _ready is None or _ready.config != config or ZMQInteractiveShell.initialized():
        return None
    shell = _ready.shell
    kinds: Any = ZMQInteractiveShell._walk_mro()
    for kind in kinds:
        kind._instance = shell
    shell.init_ipython_dir(None)
    shell.starting_dir = os.getcwd()
    shell.init_environment()
    shell.init_virtualenv()
    shell.save_sys_module_state()
    shell.init_sys_modules()
    shell.init_encoding()
    shell.init_pushd_popd_magic()
    vars(builtins).update(_ready.builtins)
    shell.init_prompts()
    shell.sys_excepthook = sys.excepthook
    for call, args, kwargs in _ready.at_exit:
        atexit.register(call, *args, **kwargs)
    return shell


def belong_to(shell: Any, kernel: Any) -> None:
    """Let an adopted shell know its kernel, as a new one does."""
    shell.parent = shell.kernel = kernel
    shell.profile_dir = kernel.profile_dir
    history = shell.history_manager
    history.hist_file = history._get_hist_file_name()
    # In place, as `_dh` is the same list.
    history.dir_hist[:] = [Path.cwd()]
