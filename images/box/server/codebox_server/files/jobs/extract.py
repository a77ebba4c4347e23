"""Extraction of an archive into a folder: everything or nothing, and nothing outside the folder."""

from __future__ import annotations

import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from typing import IO, Any, Literal, NamedTuple

from codebox_server.bounds import CHUNK_BYTES, EXTRACT_ENTRIES, NAME_BYTES, PATH_BYTES
from codebox_server.errors import BoxError
from codebox_server.files.jobs.merge import merge

_TarMode = Literal["r:*", "r:", "r:gz", "r:bz2", "r:xz"]
_TAR_MODES: dict[str | None, _TarMode] = {
    None: "r:*",
    "tar": "r:",
    "tar.gz": "r:gz",
    "tar.bz2": "r:bz2",
    "tar.xz": "r:xz",
}
# The libraries trust most fields of an archive, so a broken one may raise any of these.
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class Member(NamedTuple):
    """An entry of an archive. `kind` is file, directory, symlink, hardlink, or the name of an unsupported kind."""

    name: str
    kind: str
    mode: int
    mtime: float
    link: str
    content: IO[bytes] | None


def extract(fields: dict[str, Any]) -> dict[str, Any]:
    """Extract the archive `path` through the new folder `temporary` into `target`. Return `{files, bytes}`.

    An entry that would lie, or lead, outside raises invalid_request with its name, before anything is in `target`.
    """
    temporary = fields["temporary"]
    os.mkdir(temporary)
    extraction = _Extraction(temporary)
    try:
        for member in _members(fields["path"], fields.get("format")):
            extraction.add(member)
    except _BROKEN as error:
        raise _broken(error) from error
    except OSError as error:
        if error.errno is not None:
            raise
        # gzip and bz2 report damage without an errno.
        raise _broken(error) from error
    extraction.finish()
    merge(temporary, fields["target"], fields.get("overwrite", False))
    return {"files": extraction.files, "bytes": extraction.bytes}


def _broken(error: Exception) -> BoxError:
    return BoxError("invalid_request", f"the archive is broken or of another format: {error}"[:300], "/path")


def _members(path: str, kind: str | None) -> Iterator[Member]:
    with open(path, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if kind == "zip" or (kind is None and magic in (b"PK\x03\x04", b"PK\x05\x06")):
            yield from _zip_members(file)
        else:
            yield from _tar_members(file, _TAR_MODES[kind])


def _tar_members(file: IO[bytes], mode: _TarMode) -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode=mode, errors="surrogateescape") as tar:
        for info in _headers(tar):
            # Links are created by path, so no list of earlier entries is needed.
            tar.members.clear()  # type: ignore[attr-defined]
            kind = _tar_kind(info)
            content = tar.extractfile(info) if kind == "file" else None
            yield Member(info.name, kind, info.mode, info.mtime, info.linkname, content)
        # Only the end of the compressed data proves that it is complete.
        while tar.fileobj.read(CHUNK_BYTES // 4):
            pass


def _headers(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield all entries. Raises on a broken header, which `TarFile.next` mistakes for the end."""
    info = tar.next()
    while info is not None:
        yield info
        tar.fileobj.seek(tar.offset)
        try:
            info = tar.tarinfo.fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            return


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.isreg():
        return "file"
    if info.isdir():
        return "directory"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "device or pipe"


def _zip_members(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16 if info.create_system == 3 else 0
            kind = "directory" if info.is_dir() else _zip_kind(mode)
            with archive.open(info) as content:
                link = os.fsdecode(content.read(PATH_BYTES + 1)) if kind == "symlink" else ""
                yield Member(info.filename, kind, mode or 0o644, 0, link, content)


def _zip_kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "symlink"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "device or pipe"


class _Extraction:
    """Writes files as they come and links at the end, so that no path leads through a link while files are written."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._links: list[tuple[str, Member]] = []
        self._entries = 0
        self.files = 0
        self.bytes = 0

    def add(self, member: Member) -> None:
        self._entries += 1
        if self._entries > EXTRACT_ENTRIES:
            raise BoxError("too_large", f"an archive has at most {EXTRACT_ENTRIES} entries", "/path")
        segments = _segments(member)
        if not segments:
            # The folder itself.
            return
        target = os.path.join(self._root, *segments)
        try:
            os.makedirs(target if member.kind == "directory" else os.path.dirname(target), exist_ok=True)
            if member.kind == "directory":
                os.chmod(target, (member.mode & 0o777) | 0o700)
            elif member.kind == "file" and member.content is not None:
                self._write(target, member, member.content)
            elif member.kind == "hardlink":
                os.link(os.path.join(self._root, *_segments(member, member.link)), target, follow_symlinks=False)
            elif member.kind == "symlink":
                self._links.append((target, member))
            else:
                raise _refusal(member, f"is a {member.kind}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError, FileNotFoundError) as error:
            raise _refusal(member, "conflicts with other entries") from error

    def finish(self) -> None:
        """Create the links, and refuse those that lead out of the target, directly or through each other."""
        for target, member in self._links:
            try:
                os.symlink(member.link, target)
            except (OSError, ValueError) as error:
                raise _refusal(member, "is a link that cannot be created") from error
        root = os.path.realpath(self._root)
        for target, member in self._links:
            real = os.path.realpath(target)
            if os.path.isabs(member.link) or not (real == root or real.startswith(root + "/")):
                raise _refusal(member, "is a link that leads out of the target")

    def _write(self, target: str, member: Member, content: IO[bytes]) -> None:
        if os.path.isfile(target):
            # Of two entries with the same path the later one wins, as in every other program.
            os.unlink(target)
        with open(target, "xb", buffering=0) as file:
            while chunk := content.read(CHUNK_BYTES // 4):
                self.bytes += len(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            os.fchmod(file.fileno(), (member.mode & 0o777) | 0o600)
        if 0 < member.mtime < 1 << 33:
            os.utime(target, (member.mtime, member.mtime))
        self.files += 1


def _segments(member: Member, name: str | None = None) -> list[str]:
    path = member.name if name is None else name
    if path.startswith("/") or "\0" in path:
        raise _refusal(member, "has a path that is absolute")
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise _refusal(member, "leads out of the target")
    sizes = [len(os.fsencode(segment)) for segment in segments]
    if sum(sizes) + len(sizes) > PATH_BYTES or max(sizes, default=0) > NAME_BYTES:
        raise _refusal(member, "has a path that is too long")
    return segments


def _refusal(member: Member, why: str) -> BoxError:
    return BoxError("invalid_request", f"the entry {member.name[:200]!a} {why}", "/path")
