"""Overwrites in a spool what was said in sessions that were deleted for good. Other processes write and read it meanwhile.

Each line of such a session becomes blanks: all places in the file stay what they are, and a blank line is not a message.

A response names no session, so it is known by its request, which is forgotten then. So no frame is seen twice: first it is decided
what goes, and what could not be written is owed to the next call.
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
    """A line so far. Its pieces may be in several frames, with frames of the other side between them."""

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
    """Erases in the spool at `path`, call after call, as it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owed: list[tuple[int, int]] = []
        """Where there must be blanks that could not be written yet, and how many."""
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
            # What was said in a session that is new here may be anywhere before. Requests that are blank by now cannot be read
            # again, so those that wait for a response are kept.
            waiting = {kind: {one: True for one, goes in asked.items() if goes} for kind, asked in self._asked.items()}
            self._begin(frozenset(keys))
            self._asked = waiting
        # Not the recorder's: that one is open for appending, and there pwrite adds to the end on Linux.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            reader = SpoolReader(descriptor, self._at)
            for kind, _, data in reader.frames():
                if kind in self._lines:  # `at` is behind the frame already, and the data are its last bytes
                    self._see(kind, reader.at - len(data), data)
                self._at = reader.at
            for begin, length in self._owed:
                os.pwrite(descriptor, b" " * length, begin)
            if self._owed:
                os.fsync(descriptor)
            self._owed.clear()
        finally:
            os.close(descriptor)

    def _see(self, kind: bytes, at: int, data: bytes) -> None:
        """Note what of a frame has to become blanks."""
        for piece in io.BytesIO(data):
            whole = piece.endswith(b"\n")
            line = self._lines[kind]
            line.take(at, piece[:-1] if whole else piece)
            at += len(piece)
            if whole:
                self._lines[kind] = _Line()
                if self._goes(kind, line):
                    self._owed += line.places

    def _goes(self, kind: bytes, line: _Line) -> bool:
        if line.too_long:  # nobody could say whose it is, and it is not recorded either
            return True
        try:
            message = msgspec.json.decode(line.text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        found = [self._take(kind, mapped(one)) for one in (message if isinstance(message, list) else [message])]
        return any(found)  # each was looked at: a request says whose its response is

    def _take(self, kind: bytes, message: dict[str, object]) -> bool:
        """Return whether a message is of an erased session. Remember a request: its response names no session."""
        method, request_id = word(message.get("method")), message.get("id")
        has_id = request_id is not None and not isinstance(request_id, (dict, list))  # nobody could answer to those
        if method is None:
            return has_id and self._asked[AGENT if kind == EDITOR else EDITOR].pop(identity(request_id), False)
        # A list has the titles of sessions, which are words of theirs.
        goes = word(mapped(message.get("params")).get("sessionId")) in self._keys or method == "session/list"
        if has_id:
            pending = self._asked[kind]
            pending[identity(request_id)] = goes
            if len(pending) > PENDING:
                del pending[next(iter(pending))]
        return goes
