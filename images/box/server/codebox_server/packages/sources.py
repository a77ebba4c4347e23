"""Where the installers of a box get packages from, and what they are run with."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from codebox_server.errors import BoxError

MANAGERS = ("pip", "npm")

_PIP = ("install", "--user", "--no-input", "--no-cache-dir", "--no-warn-script-location", "--progress-bar=off")
_NPM = ("install", "--no-audit", "--no-fund", "--no-progress")

_NOWHERE = {
    "pip": "the box has no network and there is no folder of wheels: make a box with the network `internet`, have the "
    "operator set CODEBOX_WHEELS_DIR, or upload a wheel and install it by its path",
    "npm": "the box has no network: make a box with the network `internet`, or upload a package as .tgz and install it "
    "by its path",
}


@dataclass(frozen=True)
class Sources:
    """`network` says whether a registry can be reached; `wheels` is a folder that need not be there."""

    network: bool
    wheels: Path

    def argv(self, manager: str, packages: list[str]) -> list[str]:
        """The installer's command line; `packages` are data and never read as options.

        Raises conflict, with what to do, when one of them could come from nowhere.
        """
        if not self.reach(manager) and not all(_is_file(package) for package in packages):
            raise BoxError("conflict", _NOWHERE[manager])
        if manager == "pip":
            # Isolated from the working folder: a file `pip.py` in it is not the installer.
            command = [sys.executable, "-P", "-m", "pip", *_PIP]
            return [*command, *(() if self.network else ("--no-index",)), "--", *packages]
        return ["npm", *_NPM, *(() if self.network else ("--offline",)), "--", *packages]

    def reach(self, manager: str) -> bool:
        """Whether packages can be had by name."""
        return self.network or (manager == "pip" and self.wheels.is_dir())


def read_sources(env: Mapping[str, str]) -> Sources:
    """From CODEBOX_NETWORK (`none`, or anything else for a network) and CODEBOX_WHEELS."""
    return Sources(env.get("CODEBOX_NETWORK") != "none", Path(env.get("CODEBOX_WHEELS") or "/opt/wheels"))


def set_network(env: MutableMapping[str, str], network: str) -> None:
    """Note in an environment whether there is a network; without one pip looks only at the wheels."""
    env["CODEBOX_NETWORK"] = network
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        if network == "none":
            env[name] = "1"
        else:
            env.pop(name, None)


def user_site(home: Path) -> Path:
    """Where pip puts what a user installs. Python looks there only when it is there as it starts."""
    return Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(home / ".local")}))


def _is_file(package: str) -> bool:
    """Whether it is the path of an archive or a folder."""
    return "://" not in package and (os.sep in package or package.endswith((".whl", ".tar.gz", ".zip", ".tgz")))
