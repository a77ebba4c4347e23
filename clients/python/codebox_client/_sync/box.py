# Generated from _async/box.py by generate.py.
"""A box with everything that can be done in it."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from typing_extensions import Unpack

from .. import models
from .._call import Call, creating, path_of
from ..options import BoxChanges, ContextOptions, ExecutionOptions, to_json
from .exports import Exports
from .files import Files
from .links import Links
from .runs import Commands, Executions, Notebooks, Packages, RunningCode
from .terminals import Terminals
from .transport import Transport

# All files of the box are transferred.
_REST_SECONDS = 700.0


class Contexts:
    """The kernels of a box."""

    def __init__(self, transport: Transport, box: str) -> None:
        self._transport = transport
        self._path = path_of("boxes", box, "contexts")

    def create(self, **options: Unpack[ContextOptions]) -> models.Context:
        """Starts another kernel."""
        return self._transport.json(models.Context, creating(self._path, {}, options))

    def restart(self, context: str) -> models.Context:
        """Starts a fresh kernel under the same id; the variables are lost."""
        return self._transport.json(models.Context, Call("POST", f"{self._path}/{context}/restart"))

    def delete(self, context: str) -> None:
        """Deletes a context; what runs in it ends as ``killed``."""
        self._transport.done(Call("DELETE", f"{self._path}/{context}"))

    def variables(self, context: str) -> Iterator[models.Variable]:
        """The variables that the next run would find, by name; raises ``conflict`` while something runs."""
        return self._transport.items(models.Variable, Call("GET", f"{self._path}/{context}/variables"))

    def list(self) -> Iterator[models.Context]:
        """The kernels that run."""
        return self._transport.items(models.Context, Call("GET", self._path))


class Box:
    """
    A box. In a ``with`` block, it is deleted at the end of the block.

    ``info`` describes the box as the last call about it did.
    """

    def __init__(self, transport: Transport, info: models.Box) -> None:
        self._transport = transport
        self._path = path_of("boxes", info.id)
        self.id = info.id
        self.info = info
        self.executions = Executions(transport, info.id)
        self.contexts = Contexts(transport, info.id)
        self.commands = Commands(transport, info.id)
        self.notebooks = Notebooks(transport, info.id)
        self.packages = Packages(transport, info.id)
        self.exports = Exports(transport, info.id)
        self.files = Files(transport, info.id)
        self.links = Links(transport, info.id)
        self.terminals = Terminals(transport, info.id)

    def run(self, code: str, **options: Unpack[ExecutionOptions]) -> models.Execution:
        """Runs code, and waits for its end. Code that fails is a result with a status, not an error."""
        return self.executions.run(code, **options)

    def start(self, code: str, **options: Unpack[ExecutionOptions]) -> models.ExecutionSummary:
        """Starts code, and returns at once; its events can be read later."""
        return self.executions.start(code, **options)

    def stream(self, code: str, **options: Unpack[ExecutionOptions]) -> RunningCode:
        """Runs code, and streams its events as they arrive; a stream that is cut is resumed."""
        return self.executions.stream(code, **options)

    def refresh(self) -> models.Box:
        """Reads the box again."""
        return self._about(Call("GET", self._path))

    def update(self, **changes: Unpack[BoxChanges]) -> models.Box:
        """Changes metadata, times and what happens when the box is idle."""
        return self._about(Call("PATCH", self._path, json=to_json(changes)))

    def keepalive(self) -> models.Box:
        """Restarts the idle time."""
        return self._about(Call("POST", f"{self._path}/keepalive"))

    def pause(self) -> models.Box:
        """Freezes the box with its variables; raises ``conflict`` while code runs in it. Any use resumes it."""
        return self._about(Call("POST", f"{self._path}/pause", seconds=_REST_SECONDS))

    def resume(self) -> models.Box:
        """Makes the box ready again, from its memory or its files."""
        return self._about(Call("POST", f"{self._path}/resume", seconds=_REST_SECONDS))

    def hibernate(self) -> models.Box:
        """Stores the files of the box, and ends its instance. Any use restores it."""
        return self._about(Call("POST", f"{self._path}/hibernate", seconds=_REST_SECONDS))

    def checkpoint(self) -> models.Box:
        """Stores the files of the box, so that they survive the loss of its instance."""
        return self._about(Call("POST", f"{self._path}/checkpoint", seconds=_REST_SECONDS))

    def stats(self) -> models.BoxStats:
        """Current and peak usage of the box, against its limits."""
        return self._transport.json(models.BoxStats, Call("GET", f"{self._path}/stats"))

    def url(self, port: int, path: str = "") -> str:
        """The URL of a server in the box; it takes the key as any call does, or a ticket as ``?ticket=``."""
        return f"{self._transport.url}{self._path}/ports/{port}/{path.lstrip('/')}"

    def ticket(self) -> models.Ticket:
        """Creates a ticket, with which a browser connects once within a minute."""
        return self._transport.json(models.Ticket, Call("POST", f"{self._path}/tickets"))

    def delete(self) -> None:
        """Deletes the box with its files; deleting it again has no effect."""
        self._transport.done(Call("DELETE", self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    def _about(self, call: Call) -> models.Box:
        self.info = self._transport.json(models.Box, call)
        return self.info
