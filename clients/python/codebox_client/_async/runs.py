"""Executions, commands and packages: all run, emit numbered events, and end once."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from typing_extensions import Unpack

from .. import _counting
from .._call import Call, creating, path_of
from .._counting import Counting
from .._model import Model
from ..models import (
    Command,
    CommandEvent,
    CommandSummary,
    Execution,
    ExecutionEvent,
    ExecutionSummary,
    Package,
)
from ..options import CommandOptions, ExecutionOptions, InstallOptions, NotebookOptions
from .streams import AsyncEventStream
from .transport import AsyncTransport

S = TypeVar("S", bound=Model)
W = TypeVar("W", bound=Model)
E = TypeVar("E")

# How long a run may queue behind others in its context, in addition to its own time.
_QUEUE_SECONDS = 300.0
_LINES = {"accept": "application/x-ndjson"}


@dataclass(frozen=True)
class _Kind(Generic[S, W, E]):
    name: str
    summary: type[S]
    whole: type[W]
    counting: Counting[E]
    timeout_seconds: float = 60.0
    started_at: str | None = None


class _AsyncRuns(Generic[S, W, E]):
    def __init__(self, transport: AsyncTransport, box: str, kind: _Kind[S, W, E]) -> None:
        self._transport = transport
        self._box = box
        self._kind = kind
        self._path = path_of("boxes", box, kind.started_at or kind.name)

    async def get(self, run_id: str) -> W:
        """Reads a run with its output so far."""
        return await self._transport.json(self._kind.whole, Call("GET", self._of(run_id)))

    def events(self, run_id: str, *, after: int | None = None) -> AsyncEventStream[E]:
        """Streams its events from any point, up to ``done``."""
        return AsyncEventStream(self._transport, self._kind.counting, self._reopen, run_id=run_id, after=after)

    async def wait(self, run_id: str) -> W:
        """Waits for the end of a run that was started before."""
        async for _ in self.events(run_id):
            pass
        return await self.get(run_id)

    async def _run(self, body: Mapping[str, Any], options: Mapping[str, Any]) -> W:
        seconds = _QUEUE_SECONDS + (options.get("timeout_seconds") or self._kind.timeout_seconds)
        return await self._transport.json(self._kind.whole, creating(self._path, body, options, seconds=seconds))

    async def _start(self, body: Mapping[str, Any], options: Mapping[str, Any]) -> S:
        call = creating(self._path, {**body, "detach": True}, options)
        return await self._transport.json(self._kind.summary, call)

    def _streaming(self, body: Mapping[str, Any], options: Mapping[str, Any]) -> Call:
        return creating(self._path, body, options, headers=_LINES)

    def _of(self, run_id: str) -> str:
        return path_of("boxes", self._box, self._kind.name, run_id)

    def _reopen(self, run_id: str, after: int | None) -> Call:
        return Call("GET", f"{self._of(run_id)}/events", query={"after": after}, headers=_LINES)


class AsyncRunningCode(AsyncEventStream[ExecutionEvent]):
    """The events of an execution as they arrive."""

    def __init__(self, executions: AsyncExecutions, first: Call) -> None:
        super().__init__(executions._transport, _counting.executions, executions._reopen, first=first)
        self._executions = executions

    async def input(self, text: str) -> None:
        """Provides the text that ``input()`` reads."""
        await self._executions.input(self.id, text)

    async def interrupt(self) -> None:
        """Interrupts the code; variables are kept."""
        await self._executions.interrupt(self.id)


class AsyncExecutions(_AsyncRuns[ExecutionSummary, Execution, ExecutionEvent]):
    """Runs code in the kernels of a box."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        kind = _Kind("executions", ExecutionSummary, Execution, _counting.executions)
        super().__init__(transport, box, kind)

    async def run(self, code: str, **options: Unpack[ExecutionOptions]) -> Execution:
        """Runs code, and waits for its end. Code that fails is a result with a status, not an error."""
        return await self._run({"code": code}, options)

    async def start(self, code: str, **options: Unpack[ExecutionOptions]) -> ExecutionSummary:
        """Starts code, and returns at once; its events can be read later."""
        return await self._start({"code": code}, options)

    def stream(self, code: str, **options: Unpack[ExecutionOptions]) -> AsyncRunningCode:
        """Runs code, and streams its events as they arrive."""
        return AsyncRunningCode(self, self._streaming({"code": code}, options))

    async def input(self, run_id: str, text: str) -> None:
        """Provides the text that ``input()`` reads; raises ``conflict`` when the code does not wait for any."""
        await self._transport.done(Call("POST", f"{self._of(run_id)}/input", json={"text": text}))

    async def interrupt(self, run_id: str) -> None:
        """Interrupts the code; variables are kept. Its ``done`` event reports how it ended."""
        await self._transport.done(Call("POST", f"{self._of(run_id)}/interrupt"))

    def list(self) -> AsyncIterator[ExecutionSummary]:
        """Newest first."""
        return self._transport.items(ExecutionSummary, Call("GET", self._path))


def _program(program: str | Sequence[str]) -> dict[str, Any]:
    return {"command": program} if isinstance(program, str) else {"argv": [*program]}


class AsyncCommands(_AsyncRuns[CommandSummary, Command, CommandEvent]):
    """Runs processes in a box, independent of its kernels: a command line for bash, or a program with arguments."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        super().__init__(transport, box, _Kind("commands", CommandSummary, Command, _counting.commands))

    async def run(self, program: str | Sequence[str], **options: Unpack[CommandOptions]) -> Command:
        """Runs a command, and waits for its end. One that fails is a result with a status, not an error."""
        return await self._run(_program(program), options)

    async def start(self, program: str | Sequence[str], **options: Unpack[CommandOptions]) -> CommandSummary:
        """Starts a command, and returns at once. Its stdin stays open for ``input``."""
        return await self._start(_program(program), options)

    def stream(self, program: str | Sequence[str], **options: Unpack[CommandOptions]) -> AsyncEventStream[CommandEvent]:
        """Runs a command, and streams its output as it arrives."""
        first = self._streaming(_program(program), options)
        return AsyncEventStream(self._transport, self._kind.counting, self._reopen, first=first)

    async def input(self, run_id: str, data: str | bytes = b"", *, eof: bool = False) -> None:
        """Writes to stdin; ``eof`` closes it."""
        body: dict[str, Any] = {"eof": True} if eof else {}
        if isinstance(data, str):
            body["text"] = data
        elif data:
            body["base64"] = base64.b64encode(data).decode()
        await self._transport.done(Call("POST", f"{self._of(run_id)}/input", json=body))

    async def kill(self, run_id: str) -> None:
        """Ends the command: SIGTERM, then SIGKILL after 2 s."""
        await self._transport.done(Call("DELETE", self._of(run_id)))

    def list(self) -> AsyncIterator[CommandSummary]:
        """Commands that run, and finished ones that the box still remembers."""
        return self._transport.items(CommandSummary, Call("GET", self._path))


class AsyncNotebooks(_AsyncRuns[CommandSummary, Command, CommandEvent]):
    """Notebooks of a box. The run of one is a command: it can be read, waited for and ended as one."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        kind = _Kind("commands", CommandSummary, Command, _counting.commands, 600.0, started_at="notebooks")
        super().__init__(transport, box, kind)

    async def run(self, path: str, **options: Unpack[NotebookOptions]) -> Command:
        """Runs all cells, and waits; the file then has their outputs."""
        return await self._run({"path": path}, options)

    async def start(self, path: str, **options: Unpack[NotebookOptions]) -> CommandSummary:
        """Starts a run, and returns at once."""
        return await self._start({"path": path}, options)

    def stream(self, path: str, **options: Unpack[NotebookOptions]) -> AsyncEventStream[CommandEvent]:
        """Runs all cells, and streams them as they run."""
        first = self._streaming({"path": path}, options)
        return AsyncEventStream(self._transport, self._kind.counting, self._reopen, first=first)


class AsyncPackages(_AsyncRuns[CommandSummary, Command, CommandEvent]):
    """Packages of a box. An installer is a command: it can be read, waited for and ended as one."""

    def __init__(self, transport: AsyncTransport, box: str) -> None:
        kind = _Kind("commands", CommandSummary, Command, _counting.commands, 300.0, started_at="packages")
        super().__init__(transport, box, kind)

    async def install(self, *packages: str, **options: Unpack[InstallOptions]) -> Command:
        """Installs packages, and waits; ``installed`` of the result lists the new ones."""
        return await self._run({"packages": [*packages]}, options)

    async def start(self, *packages: str, **options: Unpack[InstallOptions]) -> CommandSummary:
        """Starts an installation, and returns at once."""
        return await self._start({"packages": [*packages]}, options)

    def stream(self, *packages: str, **options: Unpack[InstallOptions]) -> AsyncEventStream[CommandEvent]:
        """Installs packages, and streams the output of the installer."""
        first = self._streaming({"packages": [*packages]}, options)
        return AsyncEventStream(self._transport, self._kind.counting, self._reopen, first=first)

    def list(self, *, manager: Literal["pip", "npm"] = "pip") -> AsyncIterator[Package]:
        """Packages by name: those of the image, and those installed since."""
        return self._transport.items(Package, Call("GET", self._path, query={"manager": manager}))
