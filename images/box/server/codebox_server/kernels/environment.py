"""Our extension of the Jupyter protocol that changes the environment of a running kernel. It is not a run."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from codebox_server.forks.wire import STARTUP

REQUEST = "codebox_environment_request"

# Variables that a process, or Bash, reads only at its start.
_STARTS = (*STARTUP, "XDG_", "NODE_", "UV_THREADPOOL_SIZE", "BASH")
_SHELL = {
    *("ENV", "EUID", "IFS", "OLDPWD", "OPTIND", "POSIXLY_CORRECT", "PPID", "PROMPT_COMMAND", "PS1", "PS2", "PS4"),
    *("PWD", "SHELLOPTS", "SHLVL", "TMOUT", "UID", "_"),
}

# Names to values; None removes the variable.
Changes = dict[str, str | None]


def counts_at_start(name: str) -> bool:
    """Whether only a new process would follow a change of this variable."""
    return name.startswith(_STARTS) or name in _SHELL


def difference(before: dict[str, str], after: dict[str, str]) -> Changes:
    """Return the changes that turn one environment into the other."""
    names = before.keys() | after.keys()
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


def change(changes: Changes) -> None:
    """Change the environment of this process."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    time.tzset()
    # tempfile determines its folder only once.
    tempfile.tempdir = None


class EnvironmentMixin:
    """Adds the request to an ipykernel class."""

    shell_handlers: dict[str, Any]
    session: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell_handlers[REQUEST] = self.environment_request

    async def environment_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Reply `{status: "ok"}` once the changes are in force."""
        await self.change_environment(parent["content"]["changes"])
        self.session.send(stream, "codebox_environment_reply", {"status": "ok"}, parent, ident=ident)

    async def change_environment(self, changes: Changes) -> None:
        """Apply the changes where code runs."""
        change(changes)
