"""Attributes the output of a thread to the run that started it, even while another one runs, as for asyncio tasks."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell


def install(shell: ZMQInteractiveShell) -> None:
    """Pass the request of a run on to its threads, and to pool threads that work for it."""
    kernel = shell.kernel
    writers: tuple[Any, ...] = (shell.displayhook, shell.display_pub, kernel._stdout, kernel._stderr)
    variables = (kernel._shell_parent, kernel._shell_parent_ident, *(writer._parent_header for writer in writers))
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def belonging(call: Callable[..., Any]) -> Callable[..., Any]:
        here = contextvars.copy_context()
        held = [(variable, here[variable]) for variable in variables if variable in here]

        def run(*args: Any, **kwargs: Any) -> Any:
            tokens = [(variable, variable.set(value)) for variable, value in held]
            try:
                return call(*args, **kwargs)
            finally:
                for variable, token in tokens:
                    variable.reset(token)

        return run

    def start_belonging(thread: threading.Thread) -> None:
        thread.run = belonging(thread.run)  # type: ignore[method-assign]
        start(thread)

    def submit_belonging(
        pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        return submit(pool, belonging(call), *args, **kwargs)

    threading.Thread.start = start_belonging  # type: ignore[assignment, method-assign]
    ThreadPoolExecutor.submit = submit_belonging  # type: ignore[assignment, method-assign]
