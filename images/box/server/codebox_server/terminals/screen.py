"""The last bytes of a terminal's output, addressed by their position in the whole output."""

from __future__ import annotations

from codebox_server.bounds import SCREEN_BYTES

_ESCAPE = 0x1B
_CONTINUATION = range(0x80, 0xC0)
# The sequences by which full-screen programs enter and leave the alternate screen.
_ENTER = b"\x1b[?1049h"
_LEAVE = b"\x1b[?1049l"


class Screen:
    """A ring of bytes. Positions count from the first byte of the terminal; `start` is the oldest one that is kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.start = 0
        self.full_screen = False
        self._entered_at = 0
        self._seam = b""

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.start + len(self._kept)

    def add(self, data: bytes) -> None:
        """Append, and drop the oldest bytes."""
        self._watch(data)
        self._kept += data
        surplus = len(self._kept) - SCREEN_BYTES
        if surplus > 0:
            del self._kept[:surplus]
            self.start += surplus

    def lead_in(self, position: int) -> bytes:
        """Return what a reader needs first: entering the alternate screen, when that is no longer kept."""
        return _ENTER if self.full_screen and self._entered_at < position else b""

    def read(self, position: int, limit: int) -> bytes:
        """Return at most `limit` bytes from a position; from the oldest byte when earlier ones were dropped."""
        at = max(0, position - self.start)
        return bytes(self._kept[at : at + limit])

    def _watch(self, data: bytes) -> None:
        seen = self._seam + data
        enter, leave = seen.rfind(_ENTER), seen.rfind(_LEAVE)
        if enter > leave:
            self._entered_at = self.end - len(self._seam) + enter
        if enter != leave:
            self.full_screen = enter > leave
        # A sequence may be cut between two reads.
        self._seam = seen[1 - len(_ENTER) :]

    def tail(self) -> int:
        """Return where a new reader begins: at the first byte, or at the start of a line or a control sequence."""
        if self.start == 0:
            return 0
        newline = self._kept.find(b"\n")
        if newline >= 0:
            return self.start + newline + 1
        escape = self._kept.find(_ESCAPE)
        if escape >= 0:
            return self.start + escape
        # One endless line: at least do not cut a character.
        skipped = 0
        while skipped < min(3, len(self._kept)) and self._kept[skipped] in _CONTINUATION:
            skipped += 1
        return self.start + skipped
