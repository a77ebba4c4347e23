"""The shell of a kernel, made before the process that becomes it is forked: making one is half of a kernel's start."""

from __future__ import annotations

import atexit
import builtins
import os
import sys
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
# Copies of tables that code may add to until its first result.
_PRINTERS = ("singleton_printers", "type_printers", "deferred_printers")


@dataclass(frozen=True)
class _Ready:
    """The shell, the configuration that it was made with, and the names that it adds to the builtins."""

    shell: Any
    config: Config
    builtins: dict[str, Any]


_ready: _Ready | None = None


def make(config: Config) -> None:
    """Make the shell of a kernel that is forked from this process, and undo what that changes here."""
    global _ready
    main, path, environment = sys.modules["__main__"], sys.path[:], dict(os.environ)
    try:
        # Any folder that exists will do: the kernel sets its own.
        shell: Any = ZMQInteractiveShell(
            config=deepcopy(config), ipython_dir="/", profile_dir=ProfileDir(), compiler_class=XCachingCompiler
        )
        atexit.unregister(shell.atexit_operations)
        # The first cell would make the patterns and tables that these need.
        shell.compile.ast_parse(shell.transform_cell("1 + 1"))
        shell.display_formatter.format(2)
        for name in _PRINTERS:
            shell.display_formatter.formatters["text/plain"]._trait_values.pop(name, None)
    finally:
        sys.modules["__main__"] = main
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        for name in _PROMPTS:
            vars(sys).pop(name, None)
        added = {name: vars(builtins).pop(name, None) for name in _BUILTINS}
    _ready = _Ready(shell, config, added)


def adopt(config: Config) -> Any:
    """Let this process use the shell if it was made with this configuration; otherwise return None.

    What depends on the process is determined anew, except for what `belong_to` sets.
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
    # The objects of a process that forks are hidden from `gc`, in which code looks for its variables.
    shell.init_create_namespaces()
    shell.init_user_ns()
    shell.set_completer_frame()
    shell.save_sys_module_state()
    shell.init_sys_modules()
    shell.init_encoding()
    shell.init_pushd_popd_magic()
    vars(builtins).update(_ready.builtins)
    shell.init_prompts()
    shell.sys_excepthook = sys.excepthook
    atexit.register(shell.atexit_operations)
    return shell


def belong_to(shell: Any, kernel: Any) -> None:
    """Let an adopted shell know its kernel, as a new one does."""
    shell.parent = shell.kernel = kernel
    shell.profile_dir = kernel.profile_dir
    history = shell.history_manager
    history.hist_file = history._get_hist_file_name()
    # In place, as `_dh` is the same list.
    history.dir_hist[:] = [Path.cwd()]
