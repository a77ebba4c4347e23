"""Inspects a box from inside and prints the findings as one JSON object."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import socket
import tempfile
from collections.abc import Callable
from functools import partial

LIBC = ctypes.CDLL(None, use_errno=True)
NEWUSER = 0x10000000
# name: (number on x86-64, number on arm64, arguments)
CALLS: dict[str, tuple[int, int, tuple[object, ...]]] = {
    "io_uring_setup": (425, 425, (8, 0)),
    "keyctl": (250, 219, (0, -3, 0)),
    "add_key": (248, 217, (b"user", b"name", b"value", 5, -3)),
    "bpf": (321, 280, (0, 0, 0)),
    "perf_event_open": (298, 241, (0, 0, -1, -1, 0)),
    "userfaultfd": (323, 282, (0,)),
    "unshare": (272, 97, (NEWUSER,)),
    "setns": (308, 268, (0, 0)),
    "mount": (165, 40, (b"none", b"/tmp", b"tmpfs", 0, 0)),
    "ptrace": (101, 117, (0, 0, 0, 0)),
    "vmsplice": (278, 75, (-1, 0, 0, 0)),
    "process_vm_readv": (310, 270, (1, 0, 0, 0, 0, 0)),
    "open_by_handle_at": (304, 265, (0, 0, 0)),
    "chroot": (161, 51, (b"/tmp",)),
    "pivot_root": (155, 41, (b"/tmp", b"/tmp")),
    "kexec_load": (246, 104, (0, 0, 0, 0)),
    "finit_module": (313, 273, (0, b"", 0)),
    "fsopen": (430, 430, (b"tmpfs", 0)),
    "clone3": (435, 435, (0, 0)),
}
FAMILIES = {
    "AF_ALG": (38, socket.SOCK_SEQPACKET),
    "AF_PACKET": (17, socket.SOCK_RAW),
    "AF_VSOCK": (40, socket.SOCK_STREAM),
    "AF_TIPC": (30, socket.SOCK_STREAM),
    "AF_BLUETOOTH": (31, socket.SOCK_RAW),
    "AF_XDP": (44, socket.SOCK_RAW),
}
HOST_FILES = ["/proc/cmdline", "/proc/config.gz", "/proc/key-users", "/proc/version", "/sys/block"]
WRITE_PATHS = ["/", "/etc", "/usr", "/usr/bin", "/opt/codebox", "/opt/codebox-server", "/var", "/dev", "/run"]


def refusal(action: Callable[[], object]) -> str:
    """Returns the errno name with which the action fails, or `allowed`."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "allowed"


def call(number: int, arguments: tuple[object, ...]) -> str:
    """Makes a system call in a child: an allowed one, such as chroot, must not affect the probes after it."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        failed = LIBC.syscall(number, *arguments) < 0
        os.write(writable, (errno.errorcode.get(ctypes.get_errno(), "?") if failed else "allowed").encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(child, 0)
    with os.fdopen(readable) as file:
        return file.read()


def status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def write_probe(folder: str) -> None:
    open(f"{folder}/probe", "w").close()


def is_readable(path: str) -> bool:
    """Whether the file or folder exists and is not empty."""
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def login_uid() -> str:
    """Returns `fixed` for a login uid that never changes, `free` for one that can, `none` without kernel support."""
    path = "/proc/self/loginuid"
    if not os.path.exists(path):
        return "none"
    return "free" if refusal(lambda: set_login_uid(path)) == "allowed" else "fixed"


def set_login_uid(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write("12345")


def set_id_files() -> list[str]:
    found = []
    for folder, _, names in os.walk("/opt"):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.stat(path).st_mode & 0o6000:
                found.append(path)
    return found


def main() -> None:
    is_arm = platform.machine() == "aarch64"
    print(
        json.dumps(
            {
                "uid": os.getuid(),
                "groups": os.getgroups(),
                "user": os.popen("whoami").read().strip(),
                "status": {k: v for k, v in status().items() if k.startswith("Cap") or k in ("NoNewPrivs", "Seccomp")},
                "rootIsReadOnly": os.statvfs("/").f_flag & os.ST_RDONLY == os.ST_RDONLY,
                "calls": {
                    name: call(arm if is_arm else x86, arguments) for name, (x86, arm, arguments) in CALLS.items()
                },
                "device": refusal(lambda: os.mknod("/tmp/device", 0o20666, os.makedev(1, 3))),
                "fifo": refusal(lambda: os.mkfifo(tempfile.mktemp())),
                "setuid": refusal(lambda: os.setuid(0)),
                "families": {n: refusal(partial(socket.socket, *k)) for n, k in FAMILIES.items()},
                "netfilter": refusal(lambda: socket.socket(16, socket.SOCK_RAW, 12)),
                "interfaces": [name for _, name in socket.if_nameindex()],
                "writes": {path: refusal(partial(write_probe, path)) for path in WRITE_PATHS},
                "devices": sorted(os.listdir("/dev")),
                "processes": sum(name.isdigit() for name in os.listdir("/proc")),
                "openFiles": resource.getrlimit(resource.RLIMIT_NOFILE),
                "coreBytes": resource.getrlimit(resource.RLIMIT_CORE),
                "setIdFiles": set_id_files(),
                "hostFiles": [path for path in HOST_FILES if is_readable(path)],
                "loginUid": login_uid(),
                "environment": dict(os.environ),
            }
        )
    )


main()
