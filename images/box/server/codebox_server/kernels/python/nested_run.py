"""`asyncio.run` in a cell, where an event loop is running already: that of the kernel.

The coroutine gets a loop of its own, as in a program, and the kernel's loop waits for it as for any other code. Tasks
of earlier cells belong to the kernel's loop: a cell awaits them instead.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell


def install(shell: ZMQInteractiveShell) -> None:
    """Replace `asyncio.run`."""
    kernel, stock = shell.kernel, asyncio.run

    @functools.wraps(stock)
    def run(*args: Any, **options: Any) -> Any:
        loop = asyncio._get_running_loop()
        if loop is None or loop is not kernel.io_loop.asyncio_loop:
            return stock(*args, **options)
        with _suspended(loop), _raising_interrupts():
            return stock(*args, **options)

    asyncio.run = asyncio.runners.run = run


@contextmanager
def _suspended(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let another loop run in this thread meanwhile."""
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        asyncio.set_event_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


@contextmanager
def _raising_interrupts() -> Iterator[None]:
    """Keep the default effect of SIGINT: asyncio's own handler only cancels the task, which does not stop code that
    computes.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    # asyncio replaces nothing but the default handler itself.
    signal.signal(signal.SIGINT, functools.partial(signal.default_int_handler))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
