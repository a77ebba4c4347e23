"""Where the installers of a box get packages from, and their command lines."""

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
    """`network` says whether a registry can be reached; `wheels` is a folder that need not exist."""

    network: bool
    wheels: Path

    def argv(self, manager: str, packages: list[str]) -> list[str]:
        """Return the installer's command line; `packages` are data and never read as options.

        Raises conflict, with advice, when one of them has no source.
        """
        if not self.reach(manager) and not all(_is_file(package) for package in packages):
            raise BoxError("conflict", _NOWHERE[manager])
        if manager == "pip":
            # Isolated from the working folder: a file `pip.py` in it must not become the installer.
            command = [sys.executable, "-P", "-m", "pip", *_PIP]
            return [*command, *(() if self.network else ("--no-index",)), "--", *packages]
        return ["npm", *_NPM, *(() if self.network else ("--offline",)), "--", *packages]

    def reach(self, manager: str) -> bool:
        """Whether packages can be installed by name."""
        return self.network or (manager == "pip" and self.wheels.is_dir())


def read_sources(env: Mapping[str, str]) -> Sources:
    """Read CODEBOX_NETWORK (`none`, or anything else for a network) and CODEBOX_WHEELS."""
    return Sources(env.get("CODEBOX_NETWORK") != "none", Path(env.get("CODEBOX_WHEELS") or "/opt/wheels"))


def set_network(env: MutableMapping[str, str], network: str) -> None:
    """Set in an environment whether there is a network; without one pip uses only the wheels."""
    env["CODEBOX_NETWORK"] = network
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        if network == "none":
            env[name] = "1"
        else:
            env.pop(name, None)


def user_site(home: Path) -> Path:
    """Return where pip installs packages of a user. Python uses the folder only when it exists at its start."""
    return Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(home / ".local")}))


def _is_file(package: str) -> bool:
    """Whether the package is the path of an archive or a folder."""
    return "://" not in package and (os.sep in package or package.endswith((".whl", ".tar.gz", ".zip", ".tgz")))
