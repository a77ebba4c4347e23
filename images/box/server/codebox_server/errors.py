"""The one error class of the box server and the table from its code to an HTTP status."""

from __future__ import annotations

import errno

from codebox_server.bounds import KERNEL_FAULT_CHARACTERS

STATUS: dict[str, int] = {
    "invalid_request": 400,
    "not_found": 404,
    "conflict": 409,
    "precondition_failed": 412,
    "too_large": 413,
    "range_not_satisfiable": 416,
    "too_many_requests": 429,
    "internal": 500,
    "unreachable": 502,
    "timeout": 504,
    "disk_full": 507,
}


class BoxError(Exception):
    """A refusal that the gateway may read: a code from above, a sentence, and the JSON pointer of an invalid field.

    `reason` is one of the contract's reasons, for codes that have several.
    """

    def __init__(self, code: str, detail: str, pointer: str | None = None, *, reason: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.reason = reason

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return STATUS[self.code]

    def to_json(self) -> dict[str, str]:
        """The body of the response."""
        body = {"code": self.code, "detail": self.detail}
        if self.pointer is not None:
            body["pointer"] = self.pointer
        if self.reason is not None:
            body["reason"] = self.reason
        return body


class KernelFault(BoxError):
    """A kernel that cannot be started; the sentence, cut to its limit, says why. It may contain text of the kernel."""

    def __init__(self, detail: str) -> None:
        super().__init__("conflict", detail[:KERNEL_FAULT_CHARACTERS], reason="kernel_start")


def full() -> BoxError:
    """Return the error for a box without room for another process."""
    return BoxError("too_many_requests", "the box has reached its limit of processes and threads")


def from_os_error(error: OSError) -> BoxError:
    """Translate a failed file operation: a full disk, a missing path, a path through a file or a loop of links."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BoxError("disk_full", "the disk of the box is full")
    if error.errno == errno.EFBIG:
        return BoxError("too_large", "the file is larger than the box allows")
    if error.errno == errno.ENOENT:
        return BoxError("not_found", "no such file or folder")
    if error.errno in (
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.ENXIO,
        errno.EXDEV,
    ):
        return BoxError("invalid_request", f"the path cannot be used: {errno.errorcode[error.errno]}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return BoxError("invalid_request", "the box does not permit this path")
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ETXTBSY, errno.EBUSY):
        return BoxError("conflict", f"the path is in use: {errno.errorcode[error.errno]}")
    return BoxError("internal", f"file operation failed: {errno.errorcode.get(error.errno or 0, 'unknown')}")
