"""A notebook file: read with checks, and written so that a reader sees the old or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode

from codebox_server.bounds import NOTEBOOK_BYTES, NOTEBOOK_CELLS

_INVALID = "the file is not a notebook of nbformat 4"


class NotebookFault(Exception):
    """The file cannot be used; the message says why."""


def read_notebook(path: str) -> NotebookNode:
    """Return the notebook as nbformat 4 of this version. Raises OSError and NotebookFault."""
    # A pipe without a writer would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotebookFault("there is no file at this path")
        data = file.read(NOTEBOOK_BYTES + 1)
    if len(data) > NOTEBOOK_BYTES:
        raise NotebookFault(f"a notebook has at most {NOTEBOOK_BYTES} bytes")
    try:
        notebook = nbformat.reads(data.decode(), as_version=4)
        # Older notebooks have cells without ids, which later versions need: this adds them, and warns of it.
        notebook.nbformat_minor = max(5, notebook.nbformat_minor)
        with warnings.catch_warnings(action="ignore"):
            _, notebook = nbformat.validator.normalize(notebook)
        nbformat.validate(notebook)
    except RecursionError as error:
        raise NotebookFault(_INVALID) from error
    except Exception as error:
        # nbformat raises whatever its schema library and its converters do.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NotebookFault(f"{_INVALID}: {lines[0][:300]}") from error
    if len(notebook.cells) > NOTEBOOK_CELLS:
        raise NotebookFault(f"a notebook has at most {NOTEBOOK_CELLS} cells")
    return notebook


def write_notebook(path: str, notebook: NotebookNode, folder: str) -> None:
    """Replace the file by way of `folder`, which is on the same volume. Raises OSError."""
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
    handle, partial = tempfile.mkstemp(dir=folder)
    try:
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(nbformat.writes(notebook) + "\n")
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def language_of(notebook: NotebookNode, languages: Iterable[str]) -> str | None:
    """Return which of these languages it is in, by the names of its kernel and its language; None for another one."""
    kernel, info = notebook.metadata.get("kernelspec", {}), notebook.metadata.get("language_info", {})
    names = [name for name in (kernel.get("name"), kernel.get("language"), info.get("name")) if name]
    # Jupyter calls the kernel of the running Python by this name.
    plain = [str(name).lower().replace("python3", "python") for name in names or ["python"]]
    return next((name for name in plain if name in set(languages)), None)
