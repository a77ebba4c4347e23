# Generated from _async/codebox.py by generate.py.
"""The client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Literal, Self

import httpx
from typing_extensions import Unpack

from .. import models
from .._call import Call, creating, path_of
from ..options import BoxOptions, RunOptions, RunStep, StepsOptions, to_json
from .admin import Admin
from .box import Box
from .templates import Templates
from .transport import Transport
from .volumes import Volumes
from .webhooks import Webhooks

# A box may need a cold start.
_CREATE_SECONDS = 180.0
# Packages are installed after the start, and take up to five minutes of their own.
_INSTALL_SECONDS = 340.0
# Time for a cold start and for the run, which may take up to an hour of its own.
_RUN_SECONDS = 300.0

_State = Literal["creating", "ready", "paused", "hibernated", "deleting", "deleted", "failed", "lost"]


class Boxes:
    """Creates, finds and deletes boxes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, **options: Unpack[BoxOptions]) -> Box:
        """Creates a box, or returns the user's own one with ``reuse`` or ``name``."""
        seconds = _CREATE_SECONDS + (_INSTALL_SECONDS if options.get("packages") else 0)
        call = creating(path_of("boxes"), {}, options, seconds=seconds)
        return Box(self._transport, self._transport.json(models.Box, call))

    def get(self, box: str) -> Box:
        """Finds a box by its id, including one that has ended."""
        return Box(self._transport, self._transport.json(models.Box, Call("GET", path_of("boxes", box))))

    def delete(self, box: str) -> None:
        """Deletes a box with its files; deleting it again has no effect."""
        self._transport.done(Call("DELETE", path_of("boxes", box)))

    def list(
        self, *, user: str | None = None, state: _State | None = None, metadata: str | None = None
    ) -> Iterator[Box]:
        """Newest first, with ``metadata`` only those with this ``key=value``; ended boxes only with ``state``."""
        call = Call("GET", path_of("boxes"), query={"user": user, "state": state, "metadata": metadata})
        for info in self._transport.items(models.Box, call):
            yield Box(self._transport, info)


class CodeBox:
    """
    The client of a gateway.

    Calls that the gateway defers, or that do not reach it, are repeated ``retries`` times where that is safe: calls
    that create or run something have an Idempotency-Key. Refusals raise a CodeBoxError.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        retries: int = 3,
        http: httpx.Client | None = None,
    ) -> None:
        """``url`` and ``key`` are by default those of ``CODEBOX_URL`` and ``CODEBOX_KEY``; ``http`` sends requests."""
        url = url or os.environ.get("CODEBOX_URL") or "http://localhost:8080"
        self._transport = Transport(url, key or os.environ.get("CODEBOX_KEY"), retries, http)
        self.boxes = Boxes(self._transport)
        self.templates = Templates(self._transport)
        self.volumes = Volumes(self._transport)
        self.webhooks = Webhooks(self._transport)
        self.admin = Admin(self._transport)

    def run(self, code: str, **options: Unpack[RunOptions]) -> models.Run:
        """Runs code once in a fresh box that is deleted afterwards."""
        seconds = _RUN_SECONDS + options.get("timeout_seconds", 60.0)
        call = creating(path_of("run"), {"code": code}, options, seconds=seconds)
        return self._transport.json(models.Run, call)

    def run_steps(self, *steps: RunStep, **options: Unpack[StepsOptions]) -> models.Run:
        """Runs steps one after the other in a fresh box, up to the first that fails."""
        seconds = _RUN_SECONDS + sum(step.get("timeout_seconds", 60.0) for step in steps)
        call = creating(path_of("run"), {"steps": [to_json(step) for step in steps]}, options, seconds=seconds)
        return self._transport.json(models.Run, call)

    def usage(self) -> Iterator[models.Usage]:
        """Usage of the caller's tenant, by day and user, newest day first."""
        return self._transport.items(models.Usage, Call("GET", path_of("usage")))

    def caller(self) -> models.Caller:
        """The tenant and the scopes of the key."""
        return self._transport.json(models.Caller, Call("GET", path_of("caller")))

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
