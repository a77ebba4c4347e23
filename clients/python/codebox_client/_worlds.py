"""The differences between coroutines and threads."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Literal

import anyio


async def async_pause(seconds: float) -> None:
    """Waits in a coroutine."""
    await asyncio.sleep(seconds)


def pause(seconds: float) -> None:
    """Waits in a thread."""
    time.sleep(seconds)


async def async_open_file(path: str | os.PathLike[str], mode: Literal["rb", "wb"]) -> Any:
    """Opens a local file whose methods are coroutines."""
    return await anyio.open_file(path, mode)


def open_file(path: str | os.PathLike[str], mode: Literal["rb", "wb"]) -> Any:
    """Opens a local file."""
    return open(path, mode)
