"""Composition: everything that the handlers of this package need, built on the kernel manager of Jupyter Server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from codebox_server.bounds import BIND_SECONDS, FORK_SERVER_DELAY_SECONDS, WARM_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.files import Files, create_files
from codebox_server.forks.client import ForkServer
from codebox_server.forks.ready import ReadyForkServer
from codebox_server.jupyter.managers import BoxMappingKernelManager
from codebox_server.jupyter.specs import BoxKernelSpecManager
from codebox_server.notebooks.notebooks import Notebooks
from codebox_server.packages.hints import Hints
from codebox_server.packages.installer import Installer
from codebox_server.packages.inventory import Inventory
from codebox_server.packages.missing_package import MissingPackages
from codebox_server.packages.sources import read_sources, set_network, user_site
from codebox_server.ports.tunnel import Tunnels
from codebox_server.runs.commands import Commands
from codebox_server.runs.contexts import Contexts
from codebox_server.runs.crowd import Crowd
from codebox_server.runs.executions import Executions
from codebox_server.runs.initial_variables import InitialVariables
from codebox_server.runs.journal import Journals
from codebox_server.runs.mass_kill import kill_all, user_processes
from codebox_server.runs.probe import Probe
from codebox_server.runs.saved_variables import SavedVariables
from codebox_server.settings import Settings
from codebox_server.system.cgroup import Cgroup
from codebox_server.system.memory import has_room
from codebox_server.terminals.terminals import Terminals


@dataclass
class Environment:
    """The environment of kernels and commands: that of this process, overridden by what the gateway has bound."""

    bound: dict[str, str] = field(default_factory=dict)
    # The variables of restored files, beneath those that are bound later.
    restored: dict[str, str] = field(default_factory=dict)

    def merged(self) -> dict[str, str]:
        """Return a fresh copy for a new process."""
        return {**os.environ, **self.bound}

    def own(self) -> dict[str, str]:
        """Return a fresh copy of the environment of this process alone."""
        return dict(os.environ)


@dataclass(frozen=True)
class Box:
    """The parts that a handler may use."""

    settings: Settings
    specs: BoxKernelSpecManager
    environment: Environment
    forks: ForkServer
    contexts: Contexts
    variables: SavedVariables
    executions: Executions
    commands: Commands
    journals: Journals
    installer: Installer
    notebooks: Notebooks
    tunnels: Tunnels
    files: Files
    terminals: Terminals
    crowd: Crowd
    # Whether the current memory limit leaves room for a fork server.
    may_fork: Callable[[], bool]

    async def start_forks(self) -> None:
        """Start the fork server and let it load once nothing runs: that would delay the first result of a new box.

        One that was forked early is used at once.
        """
        if self.forks.is_ready:
            self.forks.start(self.environment.own(), self.environment.merged())
        while True:
            await asyncio.sleep(FORK_SERVER_DELAY_SECONDS)
            if self.contexts.idle():
                break
        self.forks.start(self.environment.own(), self.environment.merged())
        await self.forks.load()

    async def warm(self, languages: list[str]) -> None:
        """Start a default context of each language and prove that it works, Python's with its libraries.

        The later owner sees no trace of this. Raises conflict for a kernel that does not work, timeout.
        """
        try:
            async with asyncio.timeout(WARM_SECONDS):
                if "python" in languages:
                    self.forks.start(self.environment.own(), self.environment.merged())
                    await self.forks.load()
                for language in languages:
                    await (await self.contexts.default(language)).prove()
        except TimeoutError:
            raise BoxError("timeout", "the box did not warm up in time") from None

    async def bind(self, env: dict[str, str], network: str | None) -> None:
        """Apply this environment and network to everything that runs from now on, and to the running kernels.

        Does not wait for a new fork server, if one is needed. Raises conflict for a kernel that is busy or has
        ended, timeout; the same call may be repeated.
        """
        self.environment.bound = {**self.environment.restored, **env}
        if network is not None:
            self._set_network(network)
        self.forks.allow(self.may_fork())
        self.forks.renew(self.environment.own(), self.environment.merged())
        try:
            async with asyncio.timeout(BIND_SECONDS):
                await self.contexts.change_environment(self.specs.takes_environment)
        except TimeoutError:
            raise BoxError("timeout", "the environment could not be changed in time") from None

    async def connect(self, network: str) -> None:
        """Apply another network to everything that runs from now on, and to the idle kernels that can take it."""
        self._set_network(network)
        self.forks.renew(self.environment.own(), self.environment.merged())
        # A kernel that does not take it in time keeps its own, like a busy one.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BIND_SECONDS):
                await self.contexts.offer_environment(self.specs.takes_environment)

    def _set_network(self, network: str) -> None:
        set_network(os.environ, network)
        self.installer.sources = read_sources(os.environ)

    async def stop(self, fields: dict[str, Any]) -> None:
        """End everything that runs: runs, also queued ones, commands, terminals, and the processes that they left
        behind.

        Kernels keep their variables where an interrupt is enough, and while they use no CPU time between two calls
        of this; file jobs continue. Runs end with the cause cpu_limit, to which `fields` is added.
        """
        self.executions.stop_all("cpu_limit", fields)
        self.commands.stop_all("cpu_limit", fields)
        callers = self.contexts.processes() | self.commands.processes()
        kill_all(lambda: user_processes(callers))
        self.contexts.end_runaways()
        await asyncio.gather(*(terminal.end() for terminal in self.terminals.list()))


def create_box(settings: Settings, manager: BoxMappingKernelManager, ready: ReadyForkServer | None) -> Box:
    """Build the parts without starting anything. `ready` is a fork server that the box may use."""
    environment = Environment()
    manager.kernel_env = environment.merged
    manager.kernel_logs = settings.log_level == "DEBUG"
    manager.kernel_start_seconds = settings.kernel_start_seconds
    cgroup = Cgroup(settings.cgroup)

    def may_fork() -> bool:
        return has_room(cgroup)

    forks = manager.forks = ForkServer(enabled=may_fork(), logs=manager.kernel_logs, ready=ready)

    def callers() -> set[int]:
        return contexts.processes() | commands.processes() | terminals.processes()

    probe = Probe(str(settings.data), cgroup, callers)
    journals = Journals()
    commands = Commands(str(settings.data), environment.merged, probe, journals)
    installer = Installer(
        settings.sources,
        Inventory(user_site(settings.home), settings.data),
        commands,
        probe,
        environment.merged,
        str(settings.runtime / "install.lock"),
    )
    manager.shadows = installer.inventory.shadows
    missing_packages = MissingPackages(Hints(installer.inventory, settings.data), installer)
    contexts = Contexts(manager, probe, missing_packages, InitialVariables(settings.variables))
    terminals = Terminals(environment.merged)
    return Box(
        settings=settings,
        specs=manager.kernel_spec_manager,
        environment=environment,
        forks=forks,
        contexts=contexts,
        variables=SavedVariables(settings.variables, settings.fresh_variables, contexts, cgroup),
        executions=Executions(contexts, journals),
        commands=commands,
        journals=journals,
        installer=installer,
        notebooks=Notebooks(settings, manager.kernel_spec_manager, commands),
        tunnels=Tunnels(),
        files=create_files(str(settings.data), str(settings.upload), settings.polls),
        terminals=terminals,
        crowd=probe.crowd,
        may_fork=may_fork,
    )
