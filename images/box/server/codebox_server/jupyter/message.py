"""Messages of the Jupyter protocol as they arrive, parsed no further than needed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from codebox_server.bounds import DISPLAY_ID_CHARACTERS

_DELIMITER = b"<IDS|MSG>"
# NaN and Infinity are not JSON; a reader of our events could not parse them. There is one decoder, as creating it costs
# more than decoding most messages.
_decoder = json.JSONDecoder(parse_constant=lambda _: None)
# Frames up to this size are not decoded again soon after: all messages of a run name its request, in the same bytes.
_KNOWN_BYTES = 1024


@dataclass(frozen=True)
class ClientMessage:
    """The `execute_request` of a Jupyter client that a run stands for, the parent of the messages of the kernel."""

    id: str
    session: str
    username: str
    store_history: bool = True
    allow_stdin: bool = True
    # Expressions that the kernel evaluates after the code, by the names of their values.
    expressions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, str]:
        """Return the parts of its header."""
        return {"id": self.id, "session": self.session, "username": self.username}


class Message(NamedTuple):
    """Type, the id of the request that it belongs to, and the JSON frames, which are decoded on demand."""

    kind: str
    parent_id: str
    parent_kind: str
    raw_metadata: bytes
    raw_content: bytes

    def content(self) -> dict[str, Any]:
        """Return the content; empty when it is not a JSON object."""
        return _object(self.raw_content)

    @property
    def state(self) -> str:
        """The state of the kernel that a `status` reports."""
        raw = self.raw_content
        return _known_state(raw) if len(raw) <= _KNOWN_BYTES else _state(raw)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata; empty when it is not a JSON object."""
        return _object(self.raw_metadata)


def parse(frames: list[bytes]) -> Message | None:
    """Return a message, or None when the frames are not one.

    The signature is not checked: its key is in the same box as the code that could forge a message. Instead,
    whatever comes from a kernel is bounded and typed before it is sent on.
    """
    try:
        at = frames.index(_DELIMITER) + 2
        kind = _text(_object(frames[at]), "msg_type")
        parent = frames[at + 1]
        request = _known_request(parent) if len(parent) <= _KNOWN_BYTES else _request(parent)
        return Message(kind, *request, frames[at + 2], frames[at + 3])
    except (ValueError, IndexError):
        # Not a message: code of the box can write anything to these sockets.
        return None


def text(content: dict[str, Any], name: str) -> str:
    """Return a text field; anything else is converted to JSON text."""
    value = content.get(name, "")
    return value if isinstance(value, str) else json.dumps(value)


def mime(content: dict[str, Any]) -> dict[str, Any]:
    """Return the MIME bundle of a display: names to text or JSON."""
    data = content.get("data")
    return data if isinstance(data, dict) else {}


def display_id(content: dict[str, Any]) -> str | None:
    """Return the id by which a display can be updated."""
    transient = content.get("transient")
    value = transient.get("display_id") if isinstance(transient, dict) else None
    return value if isinstance(value, str) and len(value) <= DISPLAY_ID_CHARACTERS else None


def display_metadata(content: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a display, such as the sizes of its images, without that of our kernels."""
    metadata = content.get("metadata")
    return {name: value for name, value in metadata.items() if name != "codebox"} if isinstance(metadata, dict) else {}


def dropped_bytes(content: dict[str, Any]) -> int:
    """Return how many bytes our kernels replaced by a placeholder in a display; 0 when nothing."""
    metadata = content.get("metadata")
    own = metadata.get("codebox") if isinstance(metadata, dict) else None
    value = own.get("droppedBytes") if isinstance(own, dict) else None
    return value if isinstance(value, int) and 0 < value < 1 << 53 else 0


def _request(parent: bytes) -> tuple[str, str]:
    """Return the id and the type of the request in a parent header."""
    fields = _object(parent)
    return _text(fields, "msg_id"), _text(fields, "msg_type")


def _state(content: bytes) -> str:
    return text(_object(content), "execution_state")


_known_request, _known_state = lru_cache(16)(_request), lru_cache(16)(_state)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _object(frame: bytes) -> dict[str, Any]:
    try:
        value = _decoder.decode(frame.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
