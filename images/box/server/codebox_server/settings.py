"""What the process is told by its environment, read once at start."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codebox_server.bounds import KERNEL_START_SECONDS
from codebox_server.files.removal import remove_tree
from codebox_server.packages.sources import Sources, read_sources, user_site


@dataclass(frozen=True)
class Settings:
    """Folders and addresses of this box. `runtime` holds kernel sockets, whose paths have at most 107 bytes.

    `sources` is where its packages come from.
    """

    socket: str
    root: Path
    runtime: Path
    cgroup: Path
    log_level: str
    # Changes of files are looked for, and not waited for: CODEBOX_WATCH=polling.
    polls: bool
    sources: Sources
    # Kernel specs that the image brings, one folder per language.
    kernels: Path
    # How long a kernel has to answer for the first time.
    kernel_start_seconds: float

    @property
    def data(self) -> Path:
        """The working folder."""
        return self.root / "data"

    @property
    def home(self) -> Path:
        """The home folder of everything that runs here."""
        return self.root / "home"

    @property
    def upload(self) -> Path:
        """Files in transfer, on the same file system as `data` so that a rename is atomic."""
        return self.root / ".upload"


# What a kernel's socket adds to the runtime folder: "/k/kernel-<uuid>-ipc-5".
_SOCKET_SUFFIX = 56
_SOCKET_PATH_BYTES = 107


def read_settings(env: Mapping[str, str]) -> Settings:
    """Settings from CODEBOX_SOCKET, _ROOT, _RUNTIME_DIR, _CGROUP, _KERNELS, _KERNEL_START_SECONDS and so on."""
    return Settings(
        socket=env.get("CODEBOX_SOCKET") or "/run/codebox/box.sock",
        root=Path(env.get("CODEBOX_ROOT") or "/mnt"),
        # Hidden, so that `rm -rf /tmp/*` in a cell does not take the kernels' sockets away.
        runtime=Path(env.get("CODEBOX_RUNTIME_DIR") or "/tmp/.codebox"),
        cgroup=Path(env.get("CODEBOX_CGROUP") or "/sys/fs/cgroup"),
        log_level=(env.get("CODEBOX_LOG_LEVEL") or "WARN").upper(),
        polls=env.get("CODEBOX_WATCH") == "polling",
        sources=read_sources(env),
        kernels=Path(env.get("CODEBOX_KERNELS") or "/opt/codebox/share/kernels"),
        kernel_start_seconds=float(env.get("CODEBOX_KERNEL_START_SECONDS") or KERNEL_START_SECONDS),
    )


def prepare(settings: Settings) -> None:
    """Make the folders and point Jupyter, IPython and matplotlib at writable places outside `data`.

    Must run before jupyter_core is imported, which reads these variables as it loads.
    """
    for folder in (settings.data, settings.home, settings.upload):
        folder.mkdir(parents=True, exist_ok=True)
    if len(os.fsencode(settings.runtime)) + _SOCKET_SUFFIX > _SOCKET_PATH_BYTES:
        raise SystemExit(f"CODEBOX_RUNTIME_DIR is too long for Unix sockets: {settings.runtime}")
    settings.runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Code of the box may have put something else there.
    with contextlib.suppress(OSError):
        user_site(settings.home).mkdir(parents=True, exist_ok=True)
    for leftover in settings.upload.iterdir():
        # Code of the box can write here too: what it does not let go is its own affair.
        with contextlib.suppress(OSError):
            if leftover.is_dir() and not leftover.is_symlink():
                remove_tree(str(leftover))
            else:
                leftover.unlink()
    places = {"JUPYTER_RUNTIME_DIR": "k", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "share"}
    for variable, name in places.items():
        folder = settings.runtime / name
        folder.mkdir(exist_ok=True, mode=0o700)
        os.environ[variable] = str(folder)
    for variable, name in {"IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib"}.items():
        folder = Path(os.environ.setdefault(variable, str(settings.runtime / name)))
        folder.mkdir(parents=True, exist_ok=True)
    # A uid without a passwd entry has no name and no home; getpass and expanduser read these first.
    os.environ.setdefault("USER", "box")
    os.environ.setdefault("LOGNAME", os.environ["USER"])
    os.environ["HOME"] = str(settings.home)
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
