"""All contexts of the box by kernel id, with a default one per language. Observes the kernel manager."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from codebox_server.bounds import CONTEXTS
from codebox_server.errors import BoxError
from codebox_server.jupyter.managers import BoxMappingKernelManager
from codebox_server.packages.missing_package import MissingPackages
from codebox_server.runs.context import Context
from codebox_server.runs.initial_variables import InitialVariables
from codebox_server.runs.probe import Probe


class Contexts:
    """Follows every kernel that starts, restarts or is removed, whoever caused it."""

    def __init__(
        self,
        manager: BoxMappingKernelManager,
        probe: Probe,
        missing_packages: MissingPackages,
        initial: InitialVariables,
    ) -> None:
        self._manager = manager
        # The default context of Python begins with them.
        self._initial = initial
        self._probe = probe
        self._missing_packages = missing_packages
        self._contexts: dict[str, Context] = {}
        self._defaults: dict[str, asyncio.Task[str]] = {}
        # Their environments are those of the time when they began to start.
        self._starting: set[asyncio.Future[None]] = set()
        manager.observer = self

    def list(self) -> list[dict[str, Any]]:
        """Return every context as JSON, oldest first."""
        defaults = {task.result() for task in self._defaults.values() if task.done() and not task.exception()}
        return [context.to_json(context.id in defaults) for context in self._contexts.values()]

    def idle(self) -> bool:
        """Whether no kernel starts or runs anything."""
        starting = any(not task.done() for task in self._defaults.values())
        return not starting and all(item["state"] in ("idle", "dead") for item in self.list())

    def processes(self) -> set[int]:
        """Return the processes that hold the variables of all contexts."""
        return set().union(*(context.processes() for context in self._contexts.values()))

    def end_runaways(self) -> None:
        """End kernels that run no execution and have used CPU time before each of the last calls of this.

        The contexts stay; their next execution reports that the variables are lost.
        """
        for context in self._contexts.values():
            context.end_runaway()

    def get(self, kernel_id: str) -> Context:
        """Return a context by its kernel id. Raises not_found."""
        context = self._contexts.get(kernel_id)
        if context is None:
            raise BoxError("not_found", "no such context", "/context")
        return context

    async def create(self, language: str, cwd: str, env: dict[str, str]) -> dict[str, Any]:
        """Create a context, returned as JSON; `cwd` is relative to the working folder. Raises invalid_request for no
        such folder.
        """
        self.kernel_starting()
        folder = os.path.normpath(os.path.join(self._manager.root_dir, cwd))
        if not os.path.isdir(folder):
            what = "is not a folder" if os.path.lexists(folder) else "does not exist"
            raise BoxError("invalid_request", f"the folder {what}", "/cwd")
        if not os.access(folder, os.X_OK):
            raise BoxError("invalid_request", "the folder cannot be entered", "/cwd")
        kernel_id = await self._start(kernel_name=language, cwd=folder, env=env)
        return self.get(kernel_id).to_json(False)

    async def _start(self, **how: Any) -> str:
        started = asyncio.get_running_loop().create_future()
        self._starting.add(started)
        try:
            kernel_id: str = await self._probe.crowd.making_room(lambda: self._manager.start_kernel(**how))
        finally:
            self._starting.discard(started)
            started.set_result(None)
        return kernel_id

    async def _until_started(self) -> None:
        if self._starting:
            await asyncio.wait(self._starting)

    async def restart(self, kernel_id: str) -> dict[str, Any]:
        """Replace the process of a context, in the same environment. Raises conflict when its folder is gone."""
        self.get(kernel_id)
        if not self._manager.folder_is_there(kernel_id):
            raise BoxError("conflict", "the working folder of the context does not exist any more")
        await self._manager.restart_kernel(kernel_id)
        return next(item for item in self.list() if item["id"] == kernel_id)

    async def default(self, language: str) -> Context:
        """Return the default context of a language, created on first use; concurrent callers share it."""
        task = self._defaults.get(language)
        if task is None:
            self.kernel_starting()
            task = self._defaults[language] = asyncio.ensure_future(self._start(kernel_name=language))
        try:
            context = self.get(task.result() if task.done() else await asyncio.shield(task))
        except BaseException:
            if task.done() and self._defaults.get(language) is task:
                del self._defaults[language]
            raise
        if language == "python":
            context.begin_with(self._initial)
        return context

    def existing_default(self, language: str) -> Context | None:
        """Return the default context of a language if it has been used and its kernel runs."""
        task = self._defaults.get(language)
        started = task is not None and task.done() and not task.cancelled() and not task.exception()
        context = self._contexts.get(task.result()) if task is not None and started else None
        return context if context is not None and context.processes() else None

    async def change_environment(self, takes: Callable[[str], bool]) -> None:
        """Give all kernels the environment of new ones; `takes` says for a language whether its kernel supports that.

        Raises conflict when one has ended or is busy.
        """
        await self._until_started()
        await asyncio.gather(
            *(context.change_environment(takes(context.language)) for context in self._contexts.values())
        )

    async def offer_environment(self, takes: Callable[[str], bool]) -> None:
        """As `change_environment`, but a kernel that is busy or would lose its variables keeps its own."""
        await self._until_started()
        await asyncio.gather(
            *(context.offer_environment() for context in self._contexts.values() if takes(context.language))
        )

    def kernel_starting(self) -> None:
        """See KernelObserver. Raises too_many_requests when the box has the maximum number of kernels."""
        if len(self._contexts) >= CONTEXTS:
            raise BoxError("too_many_requests", f"a box has at most {CONTEXTS} contexts")

    def kernel_started(self, kernel_id: str) -> None:
        """See KernelObserver."""
        self._contexts[kernel_id] = Context(kernel_id, self._manager, self._probe, self._missing_packages)

    def kernel_restarting(self, kernel_id: str) -> None:
        """See KernelObserver."""
        if context := self._contexts.get(kernel_id):
            context.close("restarted")

    def kernel_restarted(self, kernel_id: str) -> None:
        """See KernelObserver."""
        if context := self._contexts.get(kernel_id):
            context.reopen()

    def kernel_interrupted(self, kernel_id: str) -> None:
        """See KernelObserver."""
        if context := self._contexts.get(kernel_id):
            context.interrupted_outside()

    def kernel_removed(self, kernel_id: str) -> None:
        """See KernelObserver."""
        if context := self._contexts.pop(kernel_id, None):
            context.close("context_deleted")
        for language, task in list(self._defaults.items()):
            if task.done() and not task.cancelled() and not task.exception() and task.result() == kernel_id:
                del self._defaults[language]
