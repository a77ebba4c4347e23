"""JSON encoding of kernel messages: as in Jupyter, but invalid text is replaced, and huge displays become a note."""

from __future__ import annotations

import json
from typing import Any

from jupyter_client.jsonutil import json_default
from jupyter_client.session import json_packer

from codebox_server.bounds import ERROR_FIELD_BYTES, RICH_BYTES, TRACEBACK_BYTES

# As in `json_packer`, which creates one for each part of each message.
_encoder = json.JSONEncoder(default=json_default, ensure_ascii=False, allow_nan=False)
# The header of the last request and its encoding: all messages of a run contain it.
_request: tuple[Any, bytes] = (None, b"")


def pack(message: Any) -> bytes:
    """Encode a part of a message as UTF-8 JSON. Lone surrogates become U+FFFD, and data beyond the limits becomes a
    note.
    """
    global _request
    if not isinstance(message, dict):
        return _encode(message)
    if not message:
        return b"{}"
    known, encoded = _request
    if message is known:
        return encoded
    if isinstance(message.get("data"), dict):
        return _encode(_without_huge_data(message))
    if "traceback" in message:
        return _encode(_without_huge_error(message))
    encoded = _encode(message)
    if message.get("msg_type") == "execute_request":
        _request = (message, encoded)
    return encoded


def _encode(message: Any) -> bytes:
    try:
        return _encoder.encode(message).encode("utf-8", "surrogateescape")
    except (TypeError, ValueError):
        pass
    try:
        return json_packer(message)
    except UnicodeEncodeError:
        return json_packer(_clean(message))


def _without_huge_data(content: dict[str, Any]) -> dict[str, Any]:
    data = content["data"]
    sizes = {kind: len(value) for kind, value in data.items() if isinstance(value, (str, bytes))}
    total = sum(sizes.values())
    if total <= RICH_BYTES:
        return content
    kind = max(sizes, key=lambda name: sizes[name])
    note = f"[{kind}, {sizes[kind]} bytes, dropped]"
    # The box server counts the missing bytes.
    return {**content, "data": {"text/plain": note}, "metadata": {"codebox": {"droppedBytes": total}}}


def _without_huge_error(content: dict[str, Any]) -> dict[str, Any]:
    # One more than the limit, so that the box server notices that it was exceeded.
    short = dict(content)
    for name in ("ename", "evalue"):
        short[name] = str(content.get(name, ""))[: ERROR_FIELD_BYTES + 1]
    short["traceback"] = [str(line)[: TRACEBACK_BYTES + 1] for line in content["traceback"] or []]
    return short


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
