"""The states of sessions that the numbers of the protocol stand for, kept over restarts.

A host numbers everything that it says, over all sessions, with one counter. A window that comes back says the last number that
it saw, and wants what came since. The session has all that was said; what it lacks is the way from a number to a state. That is a
mark: the numbers of the actions that led to the state, and as much as is needed to find it in the session again. Its messages are
those up to a seq, and one of them may have been shorter then, because its text was still streaming in.

Marks are written before the actions are sent, so no window has seen a number that is not here. They are not synced: what a
killed process has written stays. After a power loss, or without the file, a window that saw more than is known here begins again;
numbers begin at the time of day, so that none means two things.

The file has the newest marks, one JSON array a line. It is written by one thread at a time.
"""

from __future__ import annotations

import bisect
import logging
import zlib
from collections.abc import Sequence

import msgspec

from sessiond.fs import FileSystem, atomic_write

log = logging.getLogger(__name__)
_MOST = 10_000
"""Marks that are kept. When there are twice as many, the older half goes, except each session's last one."""

_DRAFT_MS = 24 * 3600 * 1000
"""How long it is known that a session was a draft, if nothing was said in it. Its marks have no time in their session's name."""


class ShownState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A state of a session. Ids of messages are only compared, so they are kept as checksums."""

    seq: int
    """Messages with a greater one came later."""
    last: int
    """Checksum of the last message's id."""
    ended: bool
    """The last turn had ended."""
    streamed: int = 0
    """Checksum of the id of the message that was streaming in; 0 if there was none."""
    chars: int = 0
    """How much of it there was."""


class StateMark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`first` to `number`: of the actions that led to the state; (0, 0) if the mark is kept for its turn's bounds alone."""

    first: int
    number: int
    session: str
    shown: ShownState
    split: str | None = None
    """The message that begins a turn since then although nobody asked."""
    client: str | None = None
    """The window that got this state as a snapshot, whose number does not count for it as one that it saw."""
    unanswered: str | None = None
    """The question whose turn has ended since then because nobody was there who would answer."""
    asked: str | None = None
    """Id of the question that windows were asked with this mark's number."""


_decode = msgspec.json.Decoder(StateMark).decode


class Numbers:
    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._marks: dict[str, list[StateMark]] = {}
        """Of each session, those that are kept for a turn's bounds first, the others in order."""
        self._count = 0
        self._limit = 2 * _MOST
        self._stale = False
        """Adding to the file is not enough."""
        self.last = 0
        """The newest number that was given."""

    def load(self, now_ms: int) -> None:
        """Blocks. What cannot be read of the file costs the replay of what it says."""
        try:
            lines = self._fs.read(self._path).splitlines() if self._fs.stat(self._path) is not None else []
        except OSError as error:
            log.warning("windows that come back have to begin again: %s", error)
            lines = []
        for line in lines:
            try:
                mark = _decode(line)
            except ValueError:  # cut off by a power loss
                self._stale = True
                continue
            if " " in mark.session or mark.number > now_ms - _DRAFT_MS:  # numbers begin at the time of day
                self._keep(mark)
            else:
                self._stale = True
        newest = max((marks[-1].number for marks in self._marks.values()), default=0)
        self.last = max(newest + _MOST, now_ms)

    def next(self) -> int:
        self.last += 1
        return self.last

    def mark(
        self,
        first: int,
        session: str,
        shown: ShownState,
        *,
        split: str | None = None,
        client: str | None = None,
        unanswered: str | None = None,
        asked: str | None = None,
    ) -> StateMark:
        """The state after the actions from `first` to the last number."""
        made = StateMark(first, self.last, session, shown, split, client, unanswered, asked)
        self._keep(made)
        return made

    def seen(self, session: str, number: int, client: str) -> int:
        """The last number that this window has of the session, if `number` is the last one that it saw of any."""
        given = (mark.number for mark in reversed(self._marks.get(session, [])) if mark.client == client)
        return max(number, next(given, 0))

    def at(self, session: str, number: int) -> tuple[StateMark | None, StateMark | None]:
        """The last mark whose numbers had all been given by `number`, and the next one. None where no such is known."""
        marks = [mark for mark in self._marks.get(session, []) if mark.number]
        at = bisect.bisect_right(marks, number, key=lambda mark: mark.number)
        return (marks[at - 1] if at else None), (marks[at] if at < len(marks) else None)

    def newest(self, session: str) -> StateMark | None:
        marks = self._marks.get(session)
        return marks[-1] if marks else None

    def splits(self, session: str) -> set[str]:
        return {mark.split for mark in self._marks.get(session, []) if mark.split is not None}

    def unanswered(self, session: str) -> set[str]:
        return {mark.unanswered for mark in self._marks.get(session, []) if mark.unanswered is not None}

    def asked(self, session: str, number: int) -> str | None:
        """The last question that windows were asked by `number`."""
        newest_first = reversed(self._marks.get(session, []))
        return next((mark.asked for mark in newest_first if mark.asked is not None and mark.number <= number), None)

    def rename(self, session: str, name: str) -> None:
        """A draft has become a session."""
        marks = self._marks.pop(session, None)
        if marks is not None:
            renamed = [msgspec.structs.replace(mark, session=name) for mark in marks]
            self._marks[name] = [*self._marks.get(name, []), *renamed]
            self._stale = True

    def forget(self, session: str) -> None:
        """The session is gone."""
        gone = self._marks.pop(session, None)
        if gone is not None:
            self._count -= len(gone)
            self._stale = True

    def to_write(self, marks: Sequence[StateMark]) -> tuple[bytes, bool]:
        """Return what brings the file up to date: lines to add, or (then true) its whole content."""
        if not self._stale:
            return _lines(marks), False
        self._stale = False
        return _lines([mark for of in self._marks.values() for mark in of]), True

    def write(self, lines: bytes, whole: bool) -> None:
        """Blocks; OSError, after which the whole file is written the next time."""
        try:
            if whole:
                atomic_write(self._fs, self._path, lines)
                return
            log = self._fs.open_log(self._path)
            try:
                log.write(lines)
            finally:
                log.close()
        except OSError:
            self._stale = True
            raise

    def _keep(self, mark: StateMark) -> None:
        self._marks.setdefault(mark.session, []).append(mark)
        self._count += 1
        if self._count >= self._limit:
            self._trim()

    def _trim(self) -> None:
        """Between two marks of a session that remain, none is missing: otherwise the first would stand for too many numbers."""
        oldest = sorted(mark.number for marks in self._marks.values() for mark in marks)[-_MOST]
        for session, marks in self._marks.items():
            kept = [mark for mark in marks[:-1] if mark.number >= oldest] + marks[-1:]
            gone = marks[: len(marks) - len(kept)]
            asked = next((mark for mark in reversed(gone) if mark.asked), None)
            bounds = [_only_bounds(mark) for mark in gone if mark.split or mark.unanswered or mark is asked]
            self._marks[session] = bounds + kept
        self._count = sum(map(len, self._marks.values()))
        self._limit = max(2 * _MOST, 2 * self._count)
        self._stale = True


def _only_bounds(mark: StateMark) -> StateMark:
    return StateMark(0, 0, mark.session, mark.shown, mark.split, unanswered=mark.unanswered, asked=mark.asked)


def _lines(marks: Sequence[StateMark]) -> bytes:
    return b"".join(msgspec.json.encode(mark) + b"\n" for mark in marks)


def checksum(text: str) -> int:
    """Never 0."""
    return zlib.crc32(text.encode()) or 1
