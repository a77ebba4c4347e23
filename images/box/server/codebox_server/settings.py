"""The configuration of the process, read once from its environment."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from codebox_server.bounds import KERNEL_START_SECONDS
from codebox_server.files.removal import remove_tree
from codebox_server.packages.sources import Sources, read_sources, user_site


@dataclass(frozen=True)
class Address:
    """An IP address and a port."""

    host: str
    port: int


@dataclass(frozen=True)
class Settings:
    """Folders and addresses of this box. `runtime` contains kernel sockets, whose paths have at most 107 bytes.

    `sources` are the package sources.
    """

    # The path of the Unix socket of this server, and where gateways reach it by TLS if they cannot reach the socket.
    socket: str
    tls: Address | None
    # An address that must be out of reach before this server listens; None where nothing has to be waited for.
    await_blocked: Address | None
    # The id of this instance.
    instance: str
    root: Path
    runtime: Path
    cgroup: Path
    log_level: str
    # Changes of files are polled instead of notified: CODEBOX_WATCH=polling.
    polls: bool
    sources: Sources
    # Kernel specs of the image, one folder per language.
    kernels: Path
    # The list of programs that the build of the image has written.
    programs: Path
    # How long a kernel may take to respond for the first time.
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
        """Unfinished uploads, on the same file system as `data` so that a rename is atomic."""
        return self.root / ".upload"

    @property
    def variables(self) -> Path:
        """The variables with which the default Python context begins, in boxes of a template that has some."""
        return self.root / ".variables"

    @property
    def fresh_variables(self) -> Path:
        """Variables of this box, saved for a template."""
        return self.root / ".variables.new"


# The length that the name of a kernel's socket adds to the path of the runtime folder: "/k/kernel-<uuid>-ipc-5".
_SOCKET_SUFFIX = 56
_SOCKET_PATH_BYTES = 107


def _read_tls(rest: str) -> Address | None:
    address = _read_address(rest)
    # Tunnels of a caller lead to the loopback interface, and must not lead to this server.
    if address is not None and (ip_address(address.host).is_loopback or ip_address(address.host).is_unspecified):
        raise SystemExit(f"CODEBOX_LISTEN has to name one address that is not a loopback address: {rest}")
    return address


def _read_address(text: str) -> Address | None:
    """Return None for text that is not `address:port`; brackets around the address are allowed."""
    host, _, port = text.rpartition(":")
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        return None
    return Address(host=str(address), port=int(port))


def _read_blocked(text: str | None) -> Address | None:
    if not text:
        return None
    address = _read_address(text)
    if address is None:
        raise SystemExit(f"CODEBOX_AWAIT_BLOCKED has to be address:port: {text}")
    return address


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise SystemExit(f"{name} is missing")
    return value


def read_settings(env: Mapping[str, str]) -> Settings:
    """Read settings from CODEBOX_INSTANCE, _LISTEN, _ROOT, _RUNTIME_DIR, _CGROUP, _KERNELS and so on."""
    # Hidden, so that `rm -rf /tmp/*` in a cell does not delete the kernels' sockets.
    runtime = Path(env.get("CODEBOX_RUNTIME_DIR") or "/tmp/.codebox")
    listen = env.get("CODEBOX_LISTEN") or "unix:/run/codebox/box.sock"
    kind, _, rest = listen.partition(":")
    tls = _read_tls(rest) if kind == "tls" else None
    if tls is None and not (kind == "unix" and rest.startswith("/")):
        raise SystemExit(f"CODEBOX_LISTEN has to be unix:/path or tls:address:port: {listen}")
    return Settings(
        socket=rest if tls is None else str(runtime / "box.sock"),
        tls=tls,
        await_blocked=_read_blocked(env.get("CODEBOX_AWAIT_BLOCKED")),
        instance=_required(env, "CODEBOX_INSTANCE"),
        root=Path(env.get("CODEBOX_ROOT") or "/mnt"),
        runtime=runtime,
        cgroup=Path(env.get("CODEBOX_CGROUP") or "/sys/fs/cgroup"),
        log_level=(env.get("CODEBOX_LOG_LEVEL") or "WARN").upper(),
        polls=env.get("CODEBOX_WATCH") == "polling",
        sources=read_sources(env),
        kernels=Path(env.get("CODEBOX_KERNELS") or "/opt/codebox/share/kernels"),
        programs=Path(env.get("CODEBOX_PROGRAMS") or "/opt/codebox/share/programs.json"),
        kernel_start_seconds=float(env.get("CODEBOX_KERNEL_START_SECONDS") or KERNEL_START_SECONDS),
    )


def take_token(env: MutableMapping[str, str]) -> str:
    """Return the token that every request has to carry, and remove it from the environment.

    It is read from the descriptor CODEBOX_TOKEN_FD, or else is CODEBOX_TOKEN. Raises SystemExit when it is missing.
    """
    token, descriptor = env.pop("CODEBOX_TOKEN", ""), env.pop("CODEBOX_TOKEN_FD", "")
    if descriptor:
        with open(int(descriptor), encoding="ascii") as file:
            token = file.readline().rstrip("\n")
    if not token:
        raise SystemExit("CODEBOX_TOKEN is missing")
    return token


def prepare(settings: Settings) -> None:
    """Create the folders and point Jupyter, IPython and matplotlib to writable places outside `data`.

    Must run before jupyter_core is imported, which reads these variables on import.
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
        # Code of the box can write here too, and may prevent the removal of its own files.
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
    fonts = os.path.join(sys.prefix, "share", "matplotlib")
    if "MPLCONFIGDIR" not in os.environ and os.path.isdir(fonts):
        # matplotlib needs a writable folder, so it gets a copy of the prebuilt font list.
        shutil.copytree(fonts, settings.runtime / "matplotlib", dirs_exist_ok=True)
    for variable, name in {"IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib"}.items():
        folder = Path(os.environ.setdefault(variable, str(settings.runtime / name)))
        folder.mkdir(parents=True, exist_ok=True)
    # A uid without a passwd entry has no name and no home; getpass and expanduser read these first.
    os.environ.setdefault("USER", "box")
    os.environ.setdefault("LOGNAME", os.environ["USER"])
    os.environ["HOME"] = str(settings.home)
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
