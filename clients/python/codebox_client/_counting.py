"""How the events of a stream are counted, so that each is seen once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import CodeBoxError
from .models import BuildEvent, CommandEvent, ExecutionEvent, WatchEvent

E = TypeVar("E")


@dataclass(frozen=True)
class Counting(Generic[E]):
    """Parses the events of a kind of stream, and counts them."""

    adapter: TypeAdapter[E]
    position: Callable[[Any], int]
    is_repeated: Callable[[Any, int], bool]
    """Whether an event has been seen, given the position of the last one that was."""
    is_last: Callable[[Any], bool]

    def parse(self, line: bytes) -> E:
        """Raises ``internal`` for a line that is no such event."""
        try:
            return self.adapter.validate_json(line)
        except ValidationError as cause:
            raise CodeBoxError("internal", "The gateway sent an unexpected event.") from cause


def _by_seq(adapter: TypeAdapter[E]) -> Counting[E]:
    """Events of a run count from 1 without gaps, up to ``done``."""
    return Counting(
        adapter,
        position=lambda event: int(event.seq),
        is_repeated=lambda event, seen: bool(event.seq <= seen),
        is_last=lambda event: bool(event.type == "done"),
    )


executions: Counting[ExecutionEvent] = _by_seq(TypeAdapter(ExecutionEvent))
commands: Counting[CommandEvent] = _by_seq(TypeAdapter(CommandEvent))
builds: Counting[BuildEvent] = _by_seq(TypeAdapter(BuildEvent))

# A watch that is resumed begins with a `ready` that its reader has already seen.
watches: Counting[WatchEvent] = Counting(
    TypeAdapter(WatchEvent),
    position=lambda event: int(event.version),
    is_repeated=lambda event, seen: bool(event.type == "ready" and event.version == seen),
    is_last=lambda event: bool(event.type == "end"),
)
