"""Saves variables as files, one each, and loads them into a namespace."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from codebox_server.kernels.python.copies import Bounds, in_copies

_SUFFIX = ".pickle"
# Longer than a file may be named.
_NAME_BYTES = 200
_REASON = 300
# The outputs and inputs that IPython keeps, and names of Python's own.
_NAMES_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[ido]h|_exit_code|__.*")
# All saved variables together, and how many.
_TOTAL_BYTES = 512 << 20
_MOST = 10_000
# A box has more time to load them than their check took.
_SAVE_SECONDS, _CHECK_SECONDS, _LOAD_SECONDS = 60.0, 40.0, 45.0
_STALL_SECONDS = 10.0
_STALLED = "it takes too long or too much memory, or ends its process"

# Of each variable that cannot be kept: its name and why.
Faults = dict[str, str]


async def save(folder: Path, namespace: dict[str, Any], hidden: dict[str, Any], extra_bytes: int) -> Faults:
    """Write the variables of a namespace into a new folder, and return those that cannot be kept."""
    folder.mkdir(mode=0o700)
    values = _values_of(namespace, hidden)
    some = dict(list(values.items())[:_MOST])
    writer = _Writer(folder, namespace)
    found = await in_copies(
        some,
        lambda name, value: _attempt(lambda: writer.write(name, value)),
        Bounds(_SAVE_SECONDS, _STALL_SECONDS, extra_bytes),
    )
    beyond = dict.fromkeys(list(values)[_MOST:], f"there are more than {_MOST} variables")
    return beyond | _faults(some, found)


async def check(folder: Path, namespace: dict[str, Any], extra_bytes: int) -> Faults:
    """Load each variable of a folder in a copy of this process; remove and return those that cannot be loaded."""
    files: dict[str, Any] = _files_in(folder)
    found = await in_copies(
        files,
        lambda _name, path: _attempt(lambda: _read(path, namespace)),
        Bounds(_CHECK_SECONDS, _STALL_SECONDS, extra_bytes),
    )
    faults = _faults(files, found)
    for name in faults:
        files[name].unlink(missing_ok=True)
    return faults


def load(folder: Path, namespace: dict[str, Any]) -> None:
    """Load the variables of a folder into a namespace, without those that cannot be loaded. Nothing is printed."""
    with _silence(), contextlib.suppress(_Late), _alarm(_LOAD_SECONDS):
        for name, path in _files_in(folder).items():
            try:
                namespace[name] = _read(path, namespace)
            except _Late:
                raise
            except BaseException:
                # It could be loaded when its template was built; its box has to do without it.
                continue


def _values_of(namespace: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
    nothing = object()
    return {
        name: value
        for name, value in list(namespace.items())
        if type(name) is str
        and name.isidentifier()
        and not _NAMES_OF_IPYTHON.fullmatch(name)
        and value is not hidden.get(name, nothing)
    }


def _faults(asked: dict[str, Any], found: dict[str, dict[str, Any]]) -> Faults:
    results = {name: found.get(name, {"fault": _STALLED}) for name in asked}
    return {name: str(result["fault"]) for name, result in results.items() if result.get("fault") is not None}


def _attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """Return `{fault}`: None, or why the work failed. Whatever the code of a value raises costs that value only."""
    try:
        work()
    except BaseException as error:
        return {"fault": _reason_of(error)}
    return {"fault": None}


def _reason_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_REASON].encode("utf-8", "replace").decode()
    except BaseException:
        return type(error).__name__[:_REASON]


def _files_in(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError):
        return {path.name.removesuffix(_SUFFIX): path for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    return {}


class _Writer:
    """Writes variables into a folder; the same in each copy."""

    def __init__(self, folder: Path, namespace: dict[str, Any]) -> None:
        self._folder = folder
        self._pickler = _pickler_of(namespace)
        self._room: int | None = None

    def write(self, name: str, value: Any) -> None:
        if len(name.encode()) > _NAME_BYTES:
            raise ValueError(f"its name has more than {_NAME_BYTES} bytes")
        if self._room is None:
            self._room = _TOTAL_BYTES - sum(entry.stat().st_size for entry in os.scandir(self._folder))
        part = self._folder / f"{name}.part"
        try:
            with part.open("wb") as file:
                bounded = _Bounded(file, self._room)
                self._pickler(bounded).dump(value)
            part.rename(self._folder / f"{name}{_SUFFIX}")
            self._room = bounded.room
        finally:
            part.unlink(missing_ok=True)


def _read(path: Path, namespace: dict[str, Any]) -> Any:
    with path.open("rb") as file:
        return _Unpickler(file, namespace).load()


class _Bounded:
    """A file that takes a number of bytes."""

    def __init__(self, file: BinaryIO, room: int) -> None:
        self._file = file
        self.room = room

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.room -= size
        if self.room < 0:
            raise ValueError(f"all variables together have more than {_TOTAL_BYTES >> 20} MiB")
        self._file.write(data)
        return size


# What a pickle has instead of the namespace itself: code that is loaded uses that into which it is loaded.
_NAMESPACE = "namespace"


def _pickler_of(namespace: dict[str, Any]) -> Any:
    """Return a class of picklers. With cloudpickle they also take functions and classes that were defined in cells."""

    def persistent_id(_self: Any, value: Any) -> str | None:
        return _NAMESPACE if value is namespace else None

    try:
        base: Any = importlib.import_module("cloudpickle").Pickler
    except (ImportError, AttributeError):
        plain = type("Pickler", (pickle.Pickler,), {"persistent_id": persistent_id})
        return lambda file: plain(file, protocol=5)

    class Pickler(base):  # type: ignore[misc]
        def __init__(self, file: Any) -> None:
            super().__init__(file, protocol=5)
            # The globals of a function are the namespace, not a copy of the values that it uses.
            self.globals_ref[id(namespace)] = namespace

        def _dynamic_function_reduce(self, function: Any) -> Any:
            reduced = super()._dynamic_function_reduce(function)
            if function.__globals__ is namespace:
                _attributes, slots = reduced[2]
                slots["__globals__"] = {}
            return reduced

        def reducer_override(self, value: Any) -> Any:
            # cloudpickle would replace a file that is open for reading by its contents.
            if isinstance(value, io.TextIOWrapper):
                raise TypeError("it is an open file")
            return super().reducer_override(value)

    Pickler.persistent_id = persistent_id
    return Pickler


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, namespace: dict[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, _id: Any) -> Any:
        return self._namespace


class _Late(BaseException):
    """The time for loading is over."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    # Rung again and again: the code of a value may catch it.
    signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 0.001), 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w") as null:
        sys.stdout = sys.stderr = null
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
