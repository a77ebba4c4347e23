"""Output in the form of CodeBoxAPI: `<txt>…</txt>`, `<img>…</img>` with a PNG in base64, and `<err>…</err>`.

The client knows no escapes and searches its whole buffer at each read, so long text, and text with a closing tag,
becomes several chunks, which the client joins.
"""

from __future__ import annotations

import re
from typing import Any

_PIECE = 16_384
_CUTS = {"txt": re.compile(r"(?<=</t)(?=xt>)"), "err": re.compile(r"(?<=</e)(?=rr>)")}
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Python's own exceptions, because clients look for those.
_ENDS = {"timeout": "TimeoutError", "oom": "MemoryError", "interrupted": "KeyboardInterrupt"}


def tagged(event: dict[str, Any]) -> str:
    """Return the chunks for an event of a run; empty when it has none."""
    kind = event["type"]
    if kind in ("stdout", "stderr"):
        return _chunk("txt" if kind == "stdout" else "err", event["text"])
    if kind in ("result", "display", "display_update"):
        return _rich(event["mime"])
    if kind == "error":
        traceback = _COLORS.sub("", "\n".join(event["traceback"]))
        return _chunk("txt", traceback) + _chunk("err", f"{event['name']}: {event['value']}")
    if kind == "truncated":
        return _chunk("err", f"RuntimeError: {event['droppedBytes']} bytes of output were dropped here")
    if kind == "done" and event["status"] not in ("ok", "error"):
        status = event["status"]
        cause = event.get("cause") or {}
        return _chunk("err", f"{_ENDS.get(status, 'RuntimeError')}: {cause.get('detail', status)}")
    return ""


def _rich(mime: dict[str, Any]) -> str:
    image, text = mime.get("image/png"), mime.get("text/plain")
    if isinstance(image, str):
        return "<img>" + image.replace("\n", "") + "</img>"
    return _chunk("txt", text) if isinstance(text, str) else ""


def _chunk(tag: str, text: str) -> str:
    parts = (part[at : at + _PIECE] for part in _CUTS[tag].split(text) for at in range(0, len(part), _PIECE))
    return "".join(f"<{tag}>{part}</{tag}>" for part in parts)
