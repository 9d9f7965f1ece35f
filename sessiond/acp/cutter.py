"""Cuts whole messages out of one direction, and lets everything else through. No I/O.

    at a line's start ──"{"──> held ──newline──> a whole message
          │                     └──too long──> loose
          └──any other byte──> loose ──newline──> at a line's start

Half a message is of no use to the other side, so it is held until its end is there. Bytes that cannot be a message pass at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.acp.bounds import HELD_BYTES

_START, _HELD, _LOOSE = range(3)
_BRACE = 0x7B


class Cutter:
    """Pieces in; the same bytes out, cut so that a message is whole. At most `most` bytes are held."""

    def __init__(self, most: int = HELD_BYTES) -> None:
        self._most = most
        self._state = _START
        self._held: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        """Bytes, and whether they are one line that begins as a message does."""
        at = 0
        while at < len(piece):
            if self._state == _START:
                self._state = _HELD if piece[at] == _BRACE else _LOOSE
            end = piece.find(b"\n", at) + 1
            part = piece[at : end or len(piece)]
            at += len(part)
            if self._state == _LOOSE:
                yield part, False
            elif end:
                yield self._taken(part), True
            else:
                self._held.append(part)
                self._length += len(part)
                if self._length > self._most:
                    yield self._taken(b""), False
                    self._state = _LOOSE
            if end:
                self._state = _START

    def rest(self) -> bytes:
        """Return what is held when the direction ends."""
        return self._taken(b"")

    def _taken(self, last: bytes) -> bytes:
        if not self._held:
            return last
        whole = b"".join((*self._held, last))
        self._held.clear()
        self._length = 0
        return whole
