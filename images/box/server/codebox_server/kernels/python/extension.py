"""Our additions to IPython: an environment for one run, and output that is complete when the run ends."""

from __future__ import annotations

import os
import sys
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell

from codebox_server.kernels.python.charts.formatter import install as install_charts
from codebox_server.kernels.python.nested_run import install as install_nested_run
from codebox_server.kernels.python.origins import install as install_origins
from codebox_server.kernels.python.tables import install as install_tables
from codebox_server.kernels.python.timing import install as install_timing
from codebox_server.kernels.python.user_site import create_refresh
from codebox_server.kernels.python.vega import install as install_vega


def load(shell: ZMQInteractiveShell | None) -> None:
    """Hook into the shell; does nothing for kernels without one."""
    if shell is None:
        return
    # The kernel itself started without the working folder; code of the box imports from it first.
    if "" not in sys.path:
        sys.path.insert(0, "")
    install_charts(shell)
    install_tables(shell)
    install_vega()
    install_timing(shell)
    install_origins(shell)
    install_nested_run(shell)
    refresh = create_refresh()
    saved: dict[str, str | None] = {}

    def begin(_info: Any) -> None:
        """Apply the environment of the request, and make new packages importable."""
        refresh()
        for name, value in _requested_env(shell).items():
            saved[name] = os.environ.get(name)
            os.environ[name] = value

    def end(_result: Any) -> None:
        """Restore the environment."""
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        saved.clear()

    shell.events.register("pre_run_cell", begin)
    shell.events.register("post_run_cell", end)


def _requested_env(shell: Any) -> dict[str, str]:
    metadata = shell.kernel.get_parent("shell").get("metadata", {})
    own = metadata.get("codebox")
    return own.get("env", {}) if isinstance(own, dict) else {}
