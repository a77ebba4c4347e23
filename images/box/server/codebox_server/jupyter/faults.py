"""Translates what goes wrong when a kernel is started to an error that says what is wrong with it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from codebox_server.errors import BoxError, KernelFault

_TEXTS = {errno.ENOENT: "not found", errno.EACCES: "permission denied"}


@contextmanager
def kernel_faults() -> Iterator[None]:
    """Raise KernelFault for an error of the block, except for those of a box that is full of processes."""
    try:
        yield
    except (BoxError, BlockingIOError):
        raise
    except OSError as error:
        raise KernelFault(_describe(error)) from error
    except Exception as error:
        raise KernelFault(f"{type(error).__name__}: {error}") from error


def _describe(error: OSError) -> str:
    number = error.errno or 0
    text = _TEXTS.get(number) or os.strerror(number).lower()
    return text if error.filename is None else f"{os.fsdecode(error.filename)}: {text}"
