"""Jupyter's provisioner of Python kernels: forks them where possible, and otherwise starts new processes."""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from codebox_server.forks.client import ForkServer
from codebox_server.forks.process import ForkedProcess
from codebox_server.forks.wire import ForkRequest
from codebox_server.kernels.final_output import FinalOutput
from codebox_server.kernels.interpreter import command_with
from codebox_server.system.process import watch_exit

_NAME = "codebox-fork"
_GROUP = "jupyter_client.kernel_provisioners"


def register_provisioner() -> None:
    """Register the name that our kernel specs use. Stock Jupyter finds names by installed packages, and ours need not
    be one.
    """
    factory = _Factory.instance()
    factory.provisioners[_NAME] = EntryPoint(_NAME, f"{__name__}:ForkProvisioner", _GROUP)


class _Factory(KernelProvisionerFactory):
    """Finds other provisioners when a kernel wants them."""

    def __init__(self, **kwargs: Any) -> None:
        # Without finding all of them, for which every package is read.
        super(KernelProvisionerFactory, self).__init__(**kwargs)


class ForkProvisioner(LocalProvisioner):
    """Kernels on this machine whose end is noticed at once, together with their last output."""

    parent: Any
    final_output: FinalOutput | None = None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork the kernel, or start it."""
        manager = self.parent.parent
        forks: ForkServer | None = None if manager.shadows and manager.shadows() else manager.forks
        cwd = str(kwargs.get("cwd") or os.getcwd())
        env = {**kwargs["env"], "JPY_PARENT_PID": str(os.getpid())}
        other = command_with(kwargs["env"], cmd)
        if other is not None:
            cmd, forks = other, None
        output = self.final_output = _final_output()
        descriptors = output.descriptors if output is not None else []
        try:
            request: ForkRequest = {"argv": cmd, "cwd": cwd, "env": env}
            pid = await forks.fork(request, descriptors) if forks is not None else None
            if pid is None:
                given = [",".join(map(str, descriptors))] if descriptors else []
                return await super().launch_kernel([*cmd, *given], **kwargs, pass_fds=descriptors)
        finally:
            if output is not None:
                output.handed_over()
        self.process = ForkedProcess(pid)  # type: ignore[assignment]
        # It leads a session of its own.
        self.pid = self.pgid = pid
        self.cwd = cwd
        return self.connection_info

    async def wait(self) -> int | None:
        """Return the exit status of the kernel at once; stock Jupyter polls every 100 ms."""
        if self.process is not None and self.process.poll() is None:
            ended = asyncio.Event()
            unwatch = watch_exit(self.process.pid, ended.set)
            try:
                await ended.wait()
            finally:
                unwatch()
        return await super().wait()


def _final_output() -> FinalOutput | None:
    try:
        return FinalOutput()
    except OSError:
        # No descriptors are left, or the host cannot share memory like this: the kernel works without.
        return None
