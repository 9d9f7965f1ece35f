"""What may be done to the index, collected into one transaction. Runs on the writing thread.

The order of what is fed is kept for every session. What changes a session's row is put off to the end of the
transaction, so that a hundred appends cost one update.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from sessiond.index.documents import Doc, Documents
from sessiond.index.schema import MESSAGE, NAME, NOTE
from sessiond.index.sessions import Known, Sessions, moment, shelf_of
from sessiond.index.text import Texts, searchable, searchable_name, searchable_note
from sessiond.index.values import IndexedInfo
from sessiond.model.message import Message, Note


class Batch:
    """One transaction after the other on one connection: `begin`, changes, then `commit` or `roll_back`.

    `lost` names sessions of which something that was fed could not be written: their fingerprint is not believed until
    `put_session`.
    """

    def __init__(self, db: sqlite3.Connection, lost: set[str]) -> None:
        self._db = db
        self._lost = lost
        self._load()

    def _load(self) -> None:
        facts = dict(self._db.execute("SELECT key, value FROM meta"))
        self._sessions = Sessions(self._db, facts["epoch"])
        self._docs = Documents(self._db, facts["next_doc"], facts["next_chunk"])
        self._roles: dict[str, int] = {name: no for no, name in self._db.execute("SELECT no, name FROM role")}
        self._infos: dict[str, IndexedInfo] = {}
        self._healed: set[str] = set()

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._docs.flush()
        for session_id, info in self._infos.items():
            self._put(session_id, info)
        self._infos.clear()
        self._docs.flush()
        self._sessions.finish()
        self._sessions.forget_fingerprints(self._lost - self._healed)
        facts = (
            ("epoch", self._sessions.epoch),
            ("next_doc", self._docs.next_doc),
            ("next_chunk", self._docs.next_chunk),
        )
        self._db.executemany("UPDATE meta SET value = ? WHERE key = ?", [(value, key) for key, value in facts])
        self._db.execute("COMMIT")
        self._lost -= self._healed
        self._healed.clear()

    def roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._load()

    # Changes

    def put_info(self, info: IndexedInfo) -> None:
        self._infos[info.session_id] = info
        if self._sessions.find(info.session_id) is None:
            self._sessions.make(info.session_id)
            self._put(info.session_id, self._infos.pop(info.session_id))

    def add_messages(self, session_id: str, messages: Sequence[Message]) -> None:
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        for message in messages:
            before = None
            if message.seq <= known.max_seq and not self._docs.waiting(known.no, MESSAGE, message.seq):
                before = self._docs.at(known.no, MESSAGE, message.seq)
            self._put_doc(known, self._message_doc(known, message), searchable(message), before)

    def add_note(self, session_id: str, note: Note) -> None:
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        before = None
        if known.max_seq and not self._docs.waiting(known.no, NOTE, note.seq):
            before = next(
                (stored for stored in self._docs.of(known.no, NOTE) if self._docs.key(stored) == note.id), None
            )
        self._put_doc(known, self._note_doc(known, note), searchable_note(note), before)

    def drop_after(self, session_id: str, seq: int) -> None:
        known = self._sessions.find(session_id)
        if known is not None:
            self._docs.flush()
            self._docs.drop(self._docs.of(known.no, MESSAGE, seq), known.shelf)

    def put_session(self, info: IndexedInfo, messages: Sequence[Message], notes: Sequence[Note]) -> None:
        """What is the same keeps its document, so that cursors and the words that are there stay good."""
        self._healed.add(info.session_id)
        known = self._sessions.find(info.session_id)
        if known is None:
            self.put_info(info)
            self.add_messages(info.session_id, messages)
            for note in notes:
                self.add_note(info.session_id, note)
            return
        self._infos[info.session_id] = info
        self._docs.flush()
        fed = [(self._message_doc(known, message), searchable(message)) for message in messages]
        fed += [(self._note_doc(known, note), searchable_note(note)) for note in notes]
        stored = {(s.kind, self._docs.key(s)): s for kind in (MESSAGE, NOTE) for s in self._docs.of(known.no, kind)}
        kept = {(doc.kind, doc.key) for doc, _ in fed}
        self._docs.drop((s for place, s in stored.items() if place not in kept), known.shelf)
        for doc, texts in fed:
            self._put_doc(known, doc, texts, stored.get((doc.kind, doc.key)))

    def remove(self, session_id: str) -> None:
        self._infos.pop(session_id, None)
        self._healed.add(session_id)
        known = self._sessions.find(session_id)
        if known is not None:
            self._docs.flush()
            for kind in (MESSAGE, NOTE, NAME):
                self._docs.drop(self._docs.of(known.no, kind), known.shelf)
            self._sessions.remove(session_id, known)

    # Within

    def _put(self, session_id: str, info: IndexedInfo) -> None:
        """The session's row, its name's document, and its shelf."""
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        old, new = known.shelf, shelf_of(info)
        believed = session_id not in self._lost or session_id in self._healed
        fresh = known.name is None and not self._docs.of(known.no, NAME)
        if old != new:
            self._docs.flush()
            self._docs.move(known.no, (MESSAGE, NOTE, NAME), old, new)
        if info.name != known.name:
            self._docs.flush()
            stored = None if fresh else next(iter(self._docs.of(known.no, NAME)), None)
            if info.name:
                doc = Doc(known.no, NAME, 0, moment(info.updated_at), 0, "")
                self._docs.put(doc, new, searchable_name(info.name), stored)
            elif stored is not None:
                self._docs.drop([stored], new)
        self._sessions.put(known, info, info.fingerprint if believed else None)

    def _put_doc(self, known: Known, doc: Doc, texts: Texts, before: object) -> None:
        self._docs.put(doc, known.shelf, texts, before)  # type: ignore[arg-type]
        known.max_seq = max(known.max_seq, doc.seq)

    def _message_doc(self, known: Known, message: Message) -> Doc:
        return Doc(known.no, MESSAGE, message.seq, moment(message.timestamp), self._role(message.role), message.id)

    def _note_doc(self, known: Known, note: Note) -> Doc:
        return Doc(known.no, NOTE, note.seq, moment(note.timestamp), 0, note.id)

    def _role(self, name: str) -> int:
        found = self._roles.get(name)
        if found is None:
            found = self._roles[name] = len(self._roles) + 1
            self._db.execute("INSERT INTO role VALUES (?, ?)", (found, name))
        return found
