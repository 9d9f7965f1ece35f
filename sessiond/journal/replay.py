"""Interprets a journal: which changes are not known to be saved, and which segments are still needed for them. Pure.

`replay` is for the start, with payloads; `SegmentLedger` is for the running daemon, without. Both follow the same three rules,
record by record in the order of lsn:

- CHANGES are pending for their session.
- SAVED ends the session's pending changes with a seq up to its own.
- GONE ends all pending changes of its session. Later changes start again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sessiond.journal.record import Record, RecordEntry, RecordKind

Key: TypeAlias = tuple[str, str]
"""(store, session)"""


def replay(records: Iterable[Record]) -> dict[Key, list[Record]]:
    """CHANGES that are not known to be saved, by session, each in the order of lsn. Sessions without any are left out."""
    pending: dict[Key, list[Record]] = {}
    for record in records:
        entry = record.entry
        key = (entry.store, entry.session)
        match entry.kind:
            case RecordKind.CHANGES:
                pending.setdefault(key, []).append(record)
            case RecordKind.SAVED if key in pending:
                pending[key] = [kept for kept in pending[key] if kept.entry.seq > entry.seq]
            case RecordKind.GONE:
                pending.pop(key, None)
    return {key: kept for key, kept in pending.items() if kept}


class SegmentLedger:
    """The segments that hold changes that are not known to be saved, and the sessions of those changes."""

    def __init__(self) -> None:
        self._needs: dict[Key, dict[int, int]] = {}
        """Session -> segment -> the greatest seq that is pending there. Sessions in order of arrival. The number of a held
        file (journal/held.py) is that of its segment, negated.
        """
        self._needed: dict[int, int] = {}
        """Segment -> how many sessions need it."""

    def apply(self, entry: RecordEntry, segment: int) -> None:
        key = (entry.store, entry.session)
        match entry.kind:
            case RecordKind.CHANGES:
                segments = self._needs.setdefault(key, {})
                if segment not in segments:
                    self._needed[segment] = self._needed.get(segment, 0) + 1
                segments[segment] = max(entry.seq, segments.get(segment, 0))
            case RecordKind.SAVED:
                self._end(key, entry.seq)
            case RecordKind.GONE:
                self._end(key, None)

    def _end(self, key: Key, seq: int | None) -> None:
        segments = self._needs.get(key, {})
        for segment in [number for number, highest in segments.items() if seq is None or highest <= seq]:
            del segments[segment]
            self._needed[segment] -= 1
            if not self._needed[segment]:
                del self._needed[segment]
        if not segments:
            self._needs.pop(key, None)

    def moved(self, segment: int, keys: Iterable[Key]) -> None:
        """Note that what is pending there for these sessions, all that need the segment, is in its held file from now on."""
        for key in keys:
            segments = self._needs[key]
            highest = segments.pop(segment)
            if -segment not in segments:  # otherwise an earlier daemon moved a part of it
                self._needed[-segment] = self._needed.get(-segment, 0) + 1
            segments[-segment] = max(highest, segments.get(-segment, 0))
        self._needed.pop(segment, None)

    def needed_by(self, segment: int) -> set[Key]:
        return {key for key, segments in self._needs.items() if segment in segments}

    def needs(self, segment: int) -> bool:
        return segment in self._needed

    def oldest_pending(self) -> list[Key]:
        """The sessions that must be saved before the oldest needed segment can be removed. Held files do not matter."""
        oldest = min((number for number in self._needed if number > 0), default=0)
        if not oldest:
            return []
        return [key for key, segments in self._needs.items() if oldest in segments]

    def pending(self) -> list[Key]:
        return list(self._needs)
