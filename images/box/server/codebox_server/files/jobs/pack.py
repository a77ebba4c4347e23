"""The whole volume of a box as one stream, and back: this is how a box is checkpointed and restored.

A stream is `CODEBOX1`, the length of the header as 8 hexadecimal digits, the header (JSON about the box), then a
gzipped tar. GNU tar writes and reads it: it keeps links, holes, times to the nanosecond, metadata and names
that are not UTF-8.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from codebox_server.bounds import JOB_ERROR_BYTES, PACK_HEAD_BYTES, PACK_MODES
from codebox_server.errors import BoxError
from codebox_server.files.removal import remove_tree

_MAGIC = b"CODEBOX1"
# Unfinished uploads belong to nobody yet; lost+found belongs to the file system.
_LEFT_OUT = (".upload", "lost+found")
# The metadata of files.
_ATTRIBUTES = ("--xattrs", "--xattrs-include=user.e2b.*")
_CREATE = [
    "tar",
    "--create",
    "--file=-",
    "--format=posix",
    # Makes two packings of the same files identical, and headers small.
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
    "--sparse",
    "--numeric-owner",
    *_ATTRIBUTES,
    "--ignore-failed-read",
    "--null",
]
_EXTRACT = [
    "tar",
    "--extract",
    "--gzip",
    "--file=-",
    "--preserve-permissions",
    "--no-same-owner",
    *_ATTRIBUTES,
    "--delay-directory-restore",
]


def pack(fields: dict[str, Any]) -> None:
    """Write the stream of the volume `root` to stdout; `unpack` returns `about`.

    Files that a process changes meanwhile are packed as found. Files that their owner may not read are made readable
    while packing takes place.
    """
    root: str = fields["root"]
    modes = dict(_make_readable(root))
    try:
        head = json.dumps({"about": fields["about"], "modes": modes}).encode()
        if len(head) > PACK_HEAD_BYTES:
            raise BoxError("too_large", "the box has too many files that their owner may not read")
        sys.stdout.buffer.write(_MAGIC + b"%08x" % len(head) + head)
        sys.stdout.buffer.flush()
        _write_tar(root)
    finally:
        _set_modes(root, modes)


def unpack(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace the contents of the volume `root` by the stream on stdin. Return the `about` that `pack` received."""
    root: str = fields["root"]
    head = json.loads(_exactly(_head_length()))
    _clear(root)
    done = subprocess.run([*_EXTRACT, f"--directory={root}"], stdin=0, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        err = done.stderr[-JOB_ERROR_BYTES:].decode(errors="replace")
        if "No space left" in err or "quota exceeded" in err:
            raise BoxError("disk_full", "the disk of the box is too small for its files")
        raise BoxError("invalid_request", f"the files could not be restored: {err[-500:]}")
    _set_modes(root, head["modes"])
    return {"about": head["about"]}


def _write_tar(root: str) -> None:
    names = [os.fsencode(name) for name in os.listdir(root) if name not in _LEFT_OUT]
    # By name, because the volume itself may belong to another user. tar wants this option after the others.
    create = [*_CREATE, f"--directory={root}", "--files-from=-"]
    with (
        subprocess.Popen(create, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar,
        subprocess.Popen(["gzip", "-1"], stdin=tar.stdout) as gzip,
    ):
        assert tar.stdin is not None and tar.stdout is not None
        # Only gzip reads this pipe: when gzip ends, tar has to notice.
        tar.stdout.close()
        tar.stdin.write(b"".join(name + b"\0" for name in names))
        tar.stdin.close()
        codes = (tar.wait(), gzip.wait())
    # tar exits with 1 when a file changed while it was read.
    if codes[0] not in (0, 1) or codes[1] != 0:
        raise RuntimeError(f"tar and gzip ended with {codes}")


def _make_readable(root: str) -> Iterator[tuple[str, int]]:
    """Make files below the volume readable; yield their paths and previous modes."""
    pending, found = [""], 0
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                if not folder and entry.name in _LEFT_OUT:
                    continue
                path = os.path.join(folder, entry.name)
                with contextlib.suppress(OSError):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    is_folder = stat.S_ISDIR(mode)
                    needed = 0o500 if is_folder else 0o400
                    if (is_folder or stat.S_ISREG(mode)) and mode & needed != needed and found < PACK_MODES:
                        os.chmod(os.path.join(root, path), stat.S_IMODE(mode) | needed)
                        found += 1
                        yield path, stat.S_IMODE(mode)
                    if is_folder:
                        pending.append(path)


def _set_modes(root: str, modes: dict[str, int]) -> None:
    # The contents of a folder before the folder itself.
    for path in sorted(modes, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.chmod(os.path.join(root, path), modes[path], follow_symlinks=True)


def _clear(root: str) -> None:
    """Empty the folders of the volume. The folders themselves stay, as processes have them as working folders."""
    for entry in list(os.scandir(root)):
        if entry.name in _LEFT_OUT:
            continue
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
            continue
        for inner in list(os.scandir(entry.path)):
            if inner.is_dir(follow_symlinks=False):
                remove_tree(inner.path)
            else:
                os.unlink(inner.path)


def _head_length() -> int:
    magic = _exactly(len(_MAGIC))
    length = _exactly(8)
    if magic != _MAGIC or not length.isalnum() or int(length, 16) > PACK_HEAD_BYTES:
        raise BoxError("invalid_request", "the data is not a checkpoint of a box")
    return int(length, 16)


def _exactly(size: int) -> bytes:
    """Read exactly the next bytes of stdin: tar continues from there."""
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            raise BoxError("invalid_request", "the checkpoint of the box is cut short")
        data += chunk
    return data
