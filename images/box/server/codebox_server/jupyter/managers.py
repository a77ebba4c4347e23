"""Jupyter's kernel managers, with our folders and environments, and with notifications about the life of kernels."""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Callable
from typing import Any, Protocol

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager
from tornado import web
from traitlets import Unicode, default, observe

from codebox_server.bounds import KERNEL_START_SECONDS
from codebox_server.errors import BoxError
from codebox_server.forks.client import ForkServer
from codebox_server.forks.provisioner import register_provisioner
from codebox_server.jupyter.error_tail import ErrorTail
from codebox_server.jupyter.faults import kernel_faults
from codebox_server.jupyter.specs import BoxKernelSpecManager
from codebox_server.system.process import place_below


class KernelObserver(Protocol):
    """Notified of what happens to kernels, whoever caused it (our own API or a stock Jupyter client)."""

    def kernel_starting(self) -> None:
        """A kernel is requested; raises BoxError when there is no room."""

    def kernel_started(self, kernel_id: str) -> None:
        """A kernel has been added to the list."""

    def kernel_restarting(self, kernel_id: str) -> None:
        """Its process is about to be replaced."""

    def kernel_restarted(self, kernel_id: str) -> None:
        """It has a new process."""

    def kernel_interrupted(self, kernel_id: str) -> None:
        """A stock client interrupts it."""

    def kernel_removed(self, kernel_id: str) -> None:
        """It is shut down and leaves the list."""


class BoxKernelManager(ServerKernelManager):
    """One kernel: over ipc, in the working folder, with the bound environment, never restarted by a timer."""

    parent: BoxMappingKernelManager
    provisioner: LocalProvisioner | None

    transport = Unicode("ipc", config=True)
    # Plain attributes instead of the stock traits: they change with every run, and a checked assignment costs more than
    # the rest of the bookkeeping together.
    execution_state: str | None = None
    last_activity: datetime.datetime | None = None  # type: ignore[assignment]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._own_env: dict[str, str] | None = None
        # The environment of its process.
        self.environment: dict[str, str] = {}
        # What its process writes to stderr.
        self._error_tail: ErrorTail | None = None

    @default("autorestart")
    def _default_autorestart(self) -> bool:
        return False

    def emit(self, schema_id: str, data: dict[str, Any]) -> None:
        """Do nothing: nobody listens, and reading the schemas takes long."""

    @observe("kernel_name")
    def _kernel_name_changed(self, change: Any) -> None:
        # The stock observer renames "python" to "python3"; here the name of a kernel is its language.
        self._kernel_spec = None
        if change["new"] == "python3":
            self.kernel_name = "python"

    async def _async_pre_start_kernel(self, **kwargs: Any) -> tuple[list[str], dict[str, Any]]:
        if self._own_env is None:
            given = kwargs.get("env") or {}
            self._own_env = {name: value for name, value in given.items() if os.environ.get(name) != value}
        manager = self.parent
        self.environment = self.wanted_environment()
        kwargs["env"] = dict(self.environment)
        kwargs.setdefault("cwd", str(manager.root_dir))
        if not manager.kernel_logs:
            # Output of code that bypasses the capture must not fill the log of the host.
            kwargs["stdout"] = kwargs["stderr"] = subprocess.DEVNULL
        with kernel_faults():
            return await super()._async_pre_start_kernel(**kwargs)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kwargs: Any) -> None:
        with kernel_faults():
            tail = self._error_tail = None if self.parent.kernel_logs else ErrorTail()
            if tail is None:
                await super()._async_launch_kernel(kernel_cmd, **kwargs)
                return
            try:
                await super()._async_launch_kernel(kernel_cmd, **{**kwargs, "stderr": tail.writer})
            finally:
                tail.handed_over()

    @property
    def last_words(self) -> str:
        """The end of what its process has written to stderr."""
        return "" if self._error_tail is None else self._error_tail.text()

    @property
    def pid(self) -> int:
        """The process id of the kernel."""
        assert self.provisioner is not None and self.provisioner.pid is not None
        return self.provisioner.pid

    @property
    def folder(self) -> str:
        """The folder in which its process was started."""
        assert self.provisioner is not None
        return str(self.provisioner.cwd)

    def was_reaped(self, returncode: int) -> None:
        """Record how the process ended, as waiting for it is no longer possible."""
        if self.provisioner is not None and self.provisioner.process is not None:
            self.provisioner.process.returncode = returncode

    def wanted_environment(self) -> dict[str, str]:
        """Return the environment that a process started now would have."""
        return {**self.parent.kernel_env(), **(self._own_env or {})}

    async def _async_wait(self, pollinterval: float = 0.1) -> None:
        # Stock Jupyter polls every 100 ms.
        if self.provisioner is not None:
            await self.provisioner.wait()

    async def _async_post_start_kernel(self, **kwargs: Any) -> None:
        place_below(self.pid)
        await super()._async_post_start_kernel(**kwargs)


class BoxMappingKernelManager(AsyncMappingKernelManager):
    """All kernels of the box. Stock REST and WebSocket work on it; an observer is notified of every change."""

    kernel_spec_manager: BoxKernelSpecManager
    observer: KernelObserver
    last_kernel_activity: datetime.datetime | None = None  # type: ignore[assignment]
    kernel_env: Callable[[], dict[str, str]]
    kernel_logs = False
    # How long a kernel may take to respond for the first time.
    kernel_start_seconds = KERNEL_START_SECONDS
    # Forks Python kernels; without it they are started as in stock Jupyter.
    forks: ForkServer | None = None
    # Whether the box has replaced packages of the image: the fork server has loaded those of the image.
    shadows: Callable[[], bool] | None = None

    def __init__(self, **kwargs: Any) -> None:
        register_provisioner()
        super().__init__(**kwargs)

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> str:
        return "codebox_server.jupyter.managers.BoxKernelManager"

    @default("default_kernel_name")
    def _default_kernel_name(self) -> str:
        return "python"

    def start_watching_activity(self, kernel_id: str) -> None:
        """Do nothing: the context of the kernel reads its messages anyway and keeps its state and times."""

    def stop_watching_activity(self, kernel_id: str) -> None:
        """Do nothing, for the same reason."""

    async def _async_start_kernel(self, **kwargs: Any) -> str:
        known = (kwargs.get("kernel_id") or "") in self
        if not known:
            try:
                self.observer.kernel_starting()
            except BoxError as error:
                raise web.HTTPError(error.status, error.detail) from error
        kernel_id = await super()._async_start_kernel(**kwargs)
        if not known:
            self.observer.kernel_started(kernel_id)
        return kernel_id

    start_kernel = _async_start_kernel  # type: ignore[assignment]

    async def _async_shutdown_kernel(
        self, kernel_id: str, now: bool | None = False, restart: bool | None = False
    ) -> None:
        self._check_kernel_id(kernel_id)
        if not restart:
            self.observer.kernel_removed(kernel_id)
        await super()._async_shutdown_kernel(kernel_id, now=now, restart=restart)

    shutdown_kernel = _async_shutdown_kernel  # type: ignore[assignment]

    async def _async_restart_kernel(self, kernel_id: str, now: bool = False) -> Any:
        self._check_kernel_id(kernel_id)
        self.observer.kernel_restarting(kernel_id)
        try:
            return await super()._async_restart_kernel(kernel_id, now=now)
        finally:
            self.observer.kernel_restarted(kernel_id)

    restart_kernel = _async_restart_kernel  # type: ignore[assignment]

    def interrupt_kernel(self, kernel_id: str) -> Any:
        """Interrupt on behalf of a stock client; returns a coroutine as the stock method does."""
        self._check_kernel_id(kernel_id)
        self.observer.kernel_interrupted(kernel_id)
        return super().interrupt_kernel(kernel_id)

    def get_kernel(self, kernel_id: str) -> BoxKernelManager:
        """Return the manager of a kernel; raises 404."""
        kernel = super().get_kernel(kernel_id)
        assert isinstance(kernel, BoxKernelManager)
        return kernel

    def relative(self, folder: str) -> str:
        """Return a folder relative to the working folder, which is ""; a folder outside of it stays absolute."""
        root = str(self.root_dir)
        return folder[len(root) :].strip("/") if folder == root or folder.startswith(f"{root}/") else folder

    def folder_is_there(self, kernel_id: str) -> bool:
        """Whether the folder in which a kernel was started still exists, so that it can be restarted."""
        return os.path.isdir(self.get_kernel(kernel_id).folder)

    async def renew(self, kernel_id: str) -> None:
        """Kill what is left of the kernel's process and start a new one under the same id, without notifying the
        observer.
        """
        await self.get_kernel(kernel_id).restart_kernel(now=True)
