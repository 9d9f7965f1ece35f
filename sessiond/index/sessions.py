"""The sessions of one transaction: the tables session, tag and history. Runs on the writing thread."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import msgspec

from sessiond.index.schema import ARCHIVED, DELETED, LIVE, MESSAGE, NOTE, UNKNOWN
from sessiond.index.values import IndexedInfo
from sessiond.model.values import epoch_ms

HISTORY_ROWS = 200_000
"""If there are more, the older half is cut: older list cursors end."""
_CACHED = 20_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_encode = msgspec.json.Encoder().encode


class IndexedSession(msgspec.Struct):
    """A session as the index has it. `keys`: the sort keys of lists: updated, created, name_key, count."""

    no: int
    shelf: int
    max_seq: int
    keys: tuple[int, int, str, int]
    name: str | None
    tags: tuple[str, ...]
    stamp: int = 0
    """The stamp of its newest info."""


class Sessions:
    """Outlives transactions; call `forget` after a rollback."""

    def __init__(self, db: sqlite3.Connection, epoch: int) -> None:
        self._db = db
        self.epoch = epoch
        """The epoch of the last transaction in which a session moved in any order."""
        self._cache: dict[str, IndexedSession] = {}
        self._recorded: set[int] = set()
        self._history_rows: int = db.execute("SELECT count(*) FROM history").fetchone()[0]

    def find(self, session_id: str) -> IndexedSession | None:
        known = self._cache.get(session_id)
        if known is None:
            known = self._load(session_id)
            if known is not None:
                if len(self._cache) >= _CACHED:
                    self._cache.clear()
                self._cache[session_id] = known
        return known

    def make(self, session_id: str) -> IndexedSession:
        """A row for a session that is not known yet. Lists and searches do not show it."""
        sql = "INSERT INTO session (id, store, shelf, archived, updated, created, name_key, count) VALUES (?, '', ?, 0, 0, 0, '', 0)"
        made = self._db.execute(sql, (session_id, UNKNOWN))
        assert made.lastrowid is not None
        known = IndexedSession(made.lastrowid, UNKNOWN, 0, (0, 0, "", 0), None, ())
        self._cache[session_id] = known
        return known

    def put(self, known: IndexedSession, info: IndexedInfo, fingerprint: str | None) -> None:
        """Write a session's row and tags; `known` is updated, including its shelf: moving its documents is up to the caller."""
        keys = keys_of(info)
        if keys != known.keys and known.shelf != UNKNOWN and known.no not in self._recorded:
            self._recorded.add(known.no)
            self._db.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", (self.epoch + 1, known.no, *known.keys))
        shelf = shelf_of(info)
        self._db.execute(
            "UPDATE session SET store = ?, shelf = ?, archived = ?, updated = ?, created = ?, name_key = ?, count = ?, name = ?,"
            " model = ?, cwd = ?, fingerprint = ?, info = ? WHERE no = ?",
            (
                info.store,
                shelf,
                info.archived,
                *keys,
                info.name,
                info.model,
                info.cwd,
                fingerprint,
                _encode(info),
                known.no,
            ),
        )
        tags = tuple(dict.fromkeys(info.tags))
        if tags != known.tags:
            self._db.execute("DELETE FROM tag WHERE no = ?", (known.no,))
            self._db.executemany("INSERT INTO tag VALUES (?, ?)", [(known.no, tag) for tag in tags])
        known.keys, known.tags, known.shelf, known.name = keys, tags, shelf, info.name

    def remove(self, session_id: str, known: IndexedSession) -> None:
        """Its documents must be gone."""
        self._history_rows -= self._db.execute("DELETE FROM history WHERE no = ?", (known.no,)).rowcount
        self._recorded.discard(known.no)
        self._db.execute("DELETE FROM tag WHERE no = ?", (known.no,))
        self._db.execute("DELETE FROM session WHERE no = ?", (known.no,))
        del self._cache[session_id]

    def forget_fingerprints(self, session_ids: set[str]) -> None:
        """Changes of these sessions were lost: nothing may claim that they are up to date."""
        self._db.executemany(
            "UPDATE session SET fingerprint = NULL WHERE id = ?", [(session_id,) for session_id in session_ids]
        )

    def finish(self) -> None:
        """Called before the commit."""
        if self._recorded:
            self.epoch += 1
            self._history_rows += len(self._recorded)
            self._recorded.clear()
        if self._history_rows > HISTORY_ROWS:
            row = self._db.execute(
                "SELECT epoch FROM history ORDER BY epoch LIMIT 1 OFFSET ?", (HISTORY_ROWS // 2,)
            ).fetchone()
            self._history_rows -= self._db.execute("DELETE FROM history WHERE epoch <= ?", row).rowcount
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('history_from', ?)", row)

    def _load(self, session_id: str) -> IndexedSession | None:
        sql = "SELECT no, shelf, updated, created, name_key, count, name FROM session WHERE id = ?"
        row = self._db.execute(sql, (session_id,)).fetchone()
        if row is None:
            return None
        no, shelf, updated, created, name_key, count, name = row
        top = "SELECT max(seq) FROM doc WHERE session = ? AND kind = ?"
        seqs = [self._db.execute(top, (no, kind)).fetchone()[0] or 0 for kind in (MESSAGE, NOTE)]
        tags = tuple(tag for (tag,) in self._db.execute("SELECT tag FROM tag WHERE no = ?", (no,)))
        return IndexedSession(no, shelf, max(seqs), (updated, created, name_key, count), name, tags)


def keys_of(info: IndexedInfo) -> tuple[int, int, str, int]:
    """The sort keys of lists: updated, created, name_key, count."""
    return moment(info.updated_at), moment(info.created_at), (info.name or "").casefold(), info.message_count


def shelf_of(info: IndexedInfo) -> int:
    return DELETED if info.deleted else ARCHIVED if info.archived else LIVE


def moment(timestamp: str) -> int:
    """Milliseconds since 1970; 0 for an invalid time, because feeding must not fail for it."""
    try:
        if len(timestamp) == 24 and timestamp[23] == "Z":  # the protocol's own shape, ten times faster
            return (datetime.fromisoformat(timestamp) - _EPOCH) // _MILLISECOND
        return epoch_ms(timestamp)
    except (ValueError, OverflowError):
        return 0
