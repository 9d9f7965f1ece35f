"""Cuts lines out of the pieces of one direction. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.limits import ACP_LINE_BYTES


class Lines:
    """Pieces in, whole lines out. A line that is longer than `most` bytes is dropped and counted."""

    def __init__(self, most: int = ACP_LINE_BYTES) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._length = 0
        self.dropped = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The lines that this piece completes, without their ends."""
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            line = self._taken(piece[begin:end])
            begin = end + 1
            if line is not None:
                yield line
        self._keep(piece[begin:])

    def rest(self) -> bytes:
        """Return what came after the last line's end; a peer may end without one."""
        return self._taken(b"") or b""

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._most:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def _taken(self, last: bytes) -> bytes | None:
        self._keep(last)
        line, length = b"".join(self._pieces), self._length
        self._pieces.clear()
        self._length = 0
        if length > self._most:
            self.dropped += 1
            return None
        return line
