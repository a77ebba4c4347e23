"""Short descriptions of variables, made in little time, whatever their classes do."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable
from typing import Any, TypeGuard

# Limits: characters of a preview, entries of a collection in it, and dimensions of a shape.
_PREVIEW = 500
_ENTRIES = 20
_DIMENSIONS = 32
_NAME = 256
_COUNT = 1 << 53

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", frozenset: "()"}


def variable_names(namespace: dict[str, Any], hidden: dict[str, Any]) -> list[str]:
    """Return the user's own names, sorted, without modules and imports. Runs no code of the values."""
    nothing = object()
    return sorted(
        name
        for name, value in namespace.items()
        if type(name) is str
        and name.isidentifier()
        and len(name) <= _NAME
        and not name.startswith("_")
        and value is not hidden.get(name, nothing)
        and not _is_imported(name, value)
    )


def type_name(value: Any) -> str:
    """Return the name of the class as it was defined."""
    return str(type.__getattribute__(type(value), "__qualname__"))[:_NAME]


def describe(value: Any) -> dict[str, Any]:
    """Return `{preview, shape?, length?, sizeBytes?}`. Runs code of the value, so it may never return."""
    details = {"shape": _shape(value), "length": _length(value), "sizeBytes": _size(value)}
    return {"preview": preview(value), **{name: fact for name, fact in details.items() if fact is not None}}


def preview(value: Any) -> str:
    """Return a short text for a value; the name of its class when that fails."""
    try:
        return _clip(_show(value, 0))
    except Exception:
        return unknown(value)


def unknown(value: Any) -> str:
    """Return the preview of a value that cannot describe itself."""
    return f"<{type_name(value)} object>"


def _is_imported(name: str, value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return True
    if kind in _FUNCTIONS:
        return getattr(value, "__module__", None) != "__main__"
    # Read through the slot of `type`, bypassing the code of a metaclass.
    if issubclass(kind, type):
        return type.__getattribute__(value, "__module__") != "__main__"
    # Functions of special types, such as those of numpy: the package that defines the type has them under this name.
    package = sys.modules.get(str(type.__getattribute__(kind, "__module__")).partition(".")[0])
    return type(package) is types.ModuleType and vars(package).get(name) is value and callable(value)


def _show(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[:_PREVIEW]) if len(value) <= _PREVIEW else f"{value[:_PREVIEW]!r}…"
    if kind in (list, tuple, set, frozenset, dict):
        return _show_collection(value, depth)
    return _clip(repr(value))


def _show_collection(value: Any, depth: int) -> str:
    kind = type(value)
    brackets = _BRACKETS.get(kind, "{}")
    if depth > 2:
        return f"{brackets[0]}…{brackets[1]}"
    if kind is dict:
        pairs = itertools.islice(value.items(), _ENTRIES)
        entries = [f"{_show(key, depth + 1)}: {_show(item, depth + 1)}" for key, item in pairs]
    else:
        entries = [_show(item, depth + 1) for item in itertools.islice(value, _ENTRIES)]
    if len(value) > _ENTRIES:
        entries.append("…")
    comma = "," if kind is tuple and len(value) == 1 else ""
    if not value and kind in (set, frozenset):
        return f"{kind.__name__}()"
    return ("frozenset" if kind is frozenset else "") + brackets[0] + ", ".join(entries) + comma + brackets[1]


def _clip(text: str) -> str:
    short = text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"
    return short.encode("utf-8", "replace").decode()


def _shape(value: Any) -> list[int] | None:
    shape = _attempt(lambda: value.shape)
    if type(shape) is not tuple or len(shape) > _DIMENSIONS or not all(_is_count(size) for size in shape):
        return None
    return list(shape)


def _length(value: Any) -> int | None:
    length = _attempt(lambda: len(value)) if hasattr(type(value), "__len__") else None
    return length if _is_count(length) else None


def _size(value: Any) -> int | None:
    """Return the size of the value itself, without what it refers to; of a table or an array with its data."""
    reads = (
        lambda: value.nbytes,
        lambda: int(value.memory_usage(index=True).sum()),
        lambda: sys.getsizeof(value),
    )
    for read in reads:
        size = _attempt(read)
        if _is_count(size):
            return size
    return None


def _is_count(number: Any) -> TypeGuard[int]:
    return type(number) is int and 0 <= number < _COUNT


def _attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:
        # The value has no size; the attribute may be anything, or its code fails.
        return None
