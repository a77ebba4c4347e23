"""A folder as one stream of tar or zip, in memory that does not grow with its files."""

from __future__ import annotations

import os
import stat
import sys
import tarfile
import time
import zipfile
from typing import IO, Any

from codebox_server.bounds import CHUNK_BYTES, ZIP_ENTRIES
from codebox_server.errors import BoxError
from codebox_server.files.jobs.walk import Entry, walk

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
# The earliest and latest times that a zip can represent.
_EARLIEST, _LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
# Above this size a zip entry needs 64-bit fields, which have to be chosen before its exact size is known.
_LARGE = 1 << 30


def archive(fields: dict[str, Any]) -> None:
    """Write the folder `path` to stdout as `format`, tar or zip. Raises too_large before the first byte."""
    root, write = fields["path"], {"tar": _write_tar, "zip": _write_zip}[fields["format"]]
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=CHUNK_BYTES // 4) as out:
        write(root, out)


class Exactly:
    """A file as a reader of exactly `size` bytes: the size is announced first, and the file may change meanwhile."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; zeros replace bytes that no longer exist."""
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data = self._file.read(wanted) if wanted else b""
        except OSError:
            # For example a file of /proc that a link led to.
            data = b""
        if len(data) < wanted:
            data += bytes(wanted - len(data))
        self._left -= len(data)
        return data


def _open(path: str) -> IO[bytes] | None:
    try:
        fd = os.open(path, _OPEN_FLAGS)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb", buffering=0)
    # Something else has replaced it since it was examined.
    os.close(fd)
    return None


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _write_tar(root: str, out: IO[bytes]) -> None:
    # GNU's format has no limits on names and sizes, and keeps names that are not UTF-8 unchanged.
    options: dict[str, Any] = {"format": tarfile.GNU_FORMAT, "encoding": "utf-8", "errors": "surrogateescape"}
    sizes: dict[str, Any] = {"bufsize": CHUNK_BYTES // 4, "copybufsize": CHUNK_BYTES // 4}
    with tarfile.open(fileobj=out, mode="w|", **sizes, **options) as tar:
        for entry in walk(root):
            _add_to_tar(tar, entry)
            # tarfile keeps members for reading the archive back, which nobody does here.
            tar.members.clear()  # type: ignore[attr-defined]


def _add_to_tar(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode = stat.S_IMODE(entry.status.st_mode)
    info.mtime = max(0, int(entry.status.st_mtime))
    if stat.S_ISDIR(entry.status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(entry.status.st_mode):
        target = _target(entry.path)
        if target is not None:
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    elif (file := _open(entry.path)) is not None:
        with file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, Exactly(file, info.size))


def _write_zip(root: str, out: IO[bytes]) -> None:
    # The directory of a zip is at its end and kept in memory until then.
    for count, _ in enumerate(walk(root), 1):
        if count > ZIP_ENTRIES:
            raise BoxError(
                "too_large", f"a zip has at most {ZIP_ENTRIES} entries; a tar has no such limit", "/query/as"
            )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for entry in walk(root):
            _add_to_zip(target, entry)


def _add_to_zip(target: zipfile.ZipFile, entry: Entry) -> None:
    mode = entry.status.st_mode
    stamp = time.gmtime(max(0, entry.status.st_mtime))[:6]
    # A zip stores names as UTF-8 only.
    name = os.fsencode(entry.name).decode("utf-8", "replace")
    info = zipfile.ZipInfo(name + "/" if stat.S_ISDIR(mode) else name, min(max(stamp, _EARLIEST), _LATEST))
    # Unix, whose modes are in the upper half of the attributes.
    info.create_system = 3
    info.external_attr = mode << 16
    if stat.S_ISDIR(mode):
        info.external_attr |= 0x10
        target.writestr(info, b"")
    elif stat.S_ISLNK(mode):
        link = _target(entry.path)
        if link is not None:
            target.writestr(info, os.fsencode(link))
    elif (file := _open(entry.path)) is not None:
        info.compress_type = zipfile.ZIP_DEFLATED
        with file:
            size = os.fstat(file.fileno()).st_size
            source = Exactly(file, size)
            with target.open(info, "w", force_zip64=size > _LARGE) as sink:
                while data := source.read(CHUNK_BYTES // 4):
                    sink.write(data)
