"""Overwrites in a spool what was said in sessions that were deleted for good. Other processes write and read it meanwhile.

Each line of such a session becomes blanks: all places in the file stay what they are, and a blank line is not a message.
"""

from __future__ import annotations

import io
import os
from collections.abc import Set

import msgspec

from sessiond.acp.acts import identity
from sessiond.acp.bounds import PENDING
from sessiond.acp.content import mapped, word
from sessiond.acp.spool import AGENT, EDITOR, SpoolReader
from sessiond.limits import ACP_LINE_BYTES


class _Line:
    """A line that is not complete yet, and where its pieces are."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        self.text = bytearray()
        self.too_long = False

    def take(self, at: int, piece: bytes) -> None:
        self.places.append((at, len(piece)))
        self.too_long = self.too_long or len(self.text) + len(piece) > ACP_LINE_BYTES
        if self.too_long:
            self.text.clear()
        else:
            self.text += piece


class Eraser:
    """One spool. `path`: of it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin(frozenset())

    def _begin(self, keys: frozenset[str]) -> None:
        self._keys = keys
        self._at = 0
        self._lines = {EDITOR: _Line(), AGENT: _Line()}
        self._asked: dict[bytes, dict[str, bool]] = {EDITOR: {}, AGENT: {}}
        """By who asked: id -> whether the response goes, too."""

    def erase(self, keys: Set[str]) -> None:
        """Erase what was said in sessions, by the agent's ids of them; after the first time, what has come since. OSError."""
        if keys != self._keys:
            self._begin(frozenset(keys))
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            reader = SpoolReader(descriptor, self._at)
            for kind, _, data in reader.frames():
                if kind in self._lines:
                    self._see(descriptor, kind, reader.at - len(data), data)
            if reader.at != self._at:
                os.fsync(descriptor)
            self._at = reader.at
        finally:
            os.close(descriptor)

    def _see(self, descriptor: int, kind: bytes, at: int, data: bytes) -> None:
        for piece in io.BytesIO(data):
            whole = piece.endswith(b"\n")
            line = self._lines[kind]
            line.take(at, piece[:-1] if whole else piece)
            at += len(piece)
            if whole:
                self._lines[kind] = _Line()
                if self._goes(kind, line):
                    for begin, length in line.places:
                        os.pwrite(descriptor, b" " * length, begin)

    def _goes(self, kind: bytes, line: _Line) -> bool:
        if line.too_long:  # nobody could say whose it is, and it is not recorded either
            return True
        try:
            message = msgspec.json.decode(line.text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        found = [self._is_of(kind, mapped(one)) for one in (message if isinstance(message, list) else [message])]
        return any(found)  # each was looked at: a request says whose its response is

    def _is_of(self, kind: bytes, message: dict[str, object]) -> bool:
        method, number = word(message.get("method")), message.get("id")
        if isinstance(number, (dict, list)):
            return False
        if method is None:
            return self._asked[AGENT if kind == EDITOR else EDITOR].pop(identity(number), False)
        # A list has the titles of sessions, which are words of theirs.
        goes = word(mapped(message.get("params")).get("sessionId")) in self._keys or method == "session/list"
        if number is not None:
            pending = self._asked[kind]
            pending[identity(number)] = goes
            if len(pending) > PENDING:
                del pending[next(iter(pending))]
        return goes
