"""The operations on the index, collected into one transaction. Runs on the writing thread.

The order of changes is kept for every session. Changes to a session's row are postponed to the end of the transaction, so
that a hundred appends cost one update.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence, Set

import msgspec

from sessiond.index.documents import Doc, DocumentRow, DocumentTable
from sessiond.index.prepared import Prepared, UsageColumns, read, texts_of
from sessiond.index.schema import MESSAGE, NAME, NOTE
from sessiond.index.sessions import IndexedSession, Sessions, moment, shelf_of
from sessiond.index.text import Texts, searchable_name, searchable_note
from sessiond.index.values import IndexedInfo
from sessiond.misfits import Misfits
from sessiond.model.message import Message, Note
from sessiond.model.session import UNTITLED


class _Whole(msgspec.Struct):
    """A session that is being fed as a whole. `stored`: its earlier documents, by kind and key."""

    stored: dict[tuple[int, str], DocumentRow] = {}


class Batch:
    """One transaction after another on one connection: `begin`, changes, then `commit` or `roll_back`.

    `lost` names sessions for which something could not be written: their fingerprint is not trusted until they are fed as a
    whole, by `begin_session`, any number of `add_part`, and `end_session`. `left_out` names sessions of which something
    cannot be indexed, however often it is tried: they have no fingerprint either, so that the next start tries again.
    """

    def __init__(self, db: sqlite3.Connection, lost: set[str], left_out: Misfits) -> None:
        self._db = db
        self._lost = lost
        self._left_out = left_out
        self._whole: dict[str, _Whole] = {}
        self._whole_before: dict[str, _Whole] = {}
        """The state when the transaction began."""
        self._late_words = 0
        self._load()

    def _load(self) -> None:
        facts = dict(self._db.execute("SELECT key, value FROM meta"))
        self._sessions = Sessions(self._db, facts["epoch"])
        self._docs = DocumentTable(
            self._db, facts["next_doc"], facts["next_chunk"], facts["vocabulary"], self._late_words
        )
        self._roles: dict[str, int] = {name: no for no, name in self._db.execute("SELECT no, name FROM role")}
        self._infos: dict[str, IndexedInfo] = {}
        self._healed: set[str] = set()

    def begin(self) -> None:
        self._whole_before = self._whole.copy()
        self._db.execute("BEGIN IMMEDIATE")

    @property
    def waiting(self) -> int:
        """Documents that were put but not written to the file yet."""
        return len(self._docs)

    def flush(self) -> None:
        """Write the waiting documents. They are visible once the transaction is committed."""
        self._docs.flush()

    def merge(self) -> bool:
        """Merge some segments of the full-text table. False: nothing is left to merge."""
        return self._docs.merge()

    def commit(self) -> None:
        self._docs.flush()
        for session_id, info in self._infos.items():
            self._put(session_id, info)
        self._infos.clear()
        self._docs.flush()
        self._sessions.finish()
        self._sessions.forget_fingerprints(self._lost.union(self._left_out.names()) - self._healed)
        facts = (
            ("epoch", self._sessions.epoch),
            ("next_doc", self._docs.next_doc),
            ("next_chunk", self._docs.next_chunk),
            ("vocabulary", self._docs.covered),
        )
        self._db.executemany("UPDATE meta SET value = ? WHERE key = ?", [(value, key) for key, value in facts])
        self._db.execute("COMMIT")
        self._lost -= self._healed
        self._healed.clear()

    def roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self.go_on(self._db)

    def go_on(self, db: sqlite3.Connection) -> None:
        """Continue from the last commit, on this connection."""
        self._db = db
        self._whole = self._whole_before.copy()
        self._late_words = self._docs.late_words
        self._load()

    @property
    def late_words(self) -> int:
        """Grows whenever words are added of texts that were written before: a vocabulary that is being read then lacks them."""
        return self._docs.late_words

    @property
    def last_chunk(self) -> int:
        return self._docs.next_chunk - 1

    @property
    def covered(self) -> int:
        """The newest chunk up to which the vocabulary has all words."""
        return self._docs.covered

    def put_vocabulary(self, rows: Sequence[bytes], covered: int) -> None:
        """Replace the vocabulary. A transaction of its own."""
        self.begin()
        self._db.execute("DELETE FROM vocabulary")
        self._db.executemany("INSERT INTO vocabulary (words) VALUES (?)", [(row,) for row in rows])
        self._docs.covered = covered
        self.commit()

    def forget_vocabulary(self) -> None:
        """Words that are removed must not stay in it."""
        if self.covered:
            self.put_vocabulary([], 0)

    def forget_roles(self) -> None:
        """Forget the names of unused roles, which a client may have made up. Call this between transactions."""
        unused = "SELECT no FROM role WHERE no > 0 AND no NOT IN (SELECT role FROM doc)"
        self._db.execute(f"UPDATE role SET name = char(1) || no WHERE no IN ({unused})")  # noqa: S608
        self._roles = {name: no for no, name in self._db.execute("SELECT no, name FROM role")}

    # Changes

    def put_info(self, info: IndexedInfo, stamp: int) -> None:
        """`stamp` grows with every info that is fed: an older one that arrives late has no effect."""
        known = self._sessions.find(info.session_id)
        if known is None:
            self._sessions.make(info.session_id).stamp = stamp
            self._put(info.session_id, info)
        elif stamp >= known.stamp:
            known.stamp = stamp
            self._infos[info.session_id] = info

    def add_messages(self, session_id: str, messages: Sequence[Message]) -> None:
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        for message in messages:
            before = None
            if message.seq <= known.max_seq and not self._docs.waiting(known.no, MESSAGE, message.seq):
                before = self._docs.at(known.no, MESSAGE, message.seq)
            found = read(message)
            if found.problem is not None:
                self._note(session_id, message.id, found.problem)
            self._put_doc(known, self._message_doc(known, message, found.usage), found.texts, before)

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

    def begin_session(self, info: IndexedInfo, message_ids: Set[str], note_ids: Set[str], stamp: int) -> None:
        """The session is about to be fed as a whole. Everything except these ids is removed. Unchanged content keeps its
        document, so that cursors and existing words remain valid.
        """
        session_id = info.session_id
        self._lost.discard(session_id)
        self._left_out.passed(session_id)
        whole = self._whole[session_id] = _Whole()
        self.put_info(msgspec.structs.replace(info, fingerprint=None), stamp)
        known = self._sessions.find(session_id)
        if known is None or not known.max_seq:
            return
        self._docs.flush()
        gone: list[DocumentRow] = []
        for kind, ids in ((MESSAGE, message_ids), (NOTE, note_ids)):
            for stored in self._docs.of(known.no, kind):
                key = self._docs.key(stored)
                if key not in ids or whole.stored.setdefault((kind, key), stored) is not stored:
                    gone.append(stored)  # no longer in it, or twice in the index
        self._docs.drop(gone, known.shelf)

    def add_part(self, session_id: str, prepared: Prepared) -> None:
        """Add more of the session's messages, in order."""
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        for message_id, problem in prepared.bad:
            self._note(session_id, message_id, problem)
        whole = self._whole.get(session_id)
        stored = whole.stored if whole is not None else {}
        roles = [self._role(doc.role) for doc in prepared.docs]
        seq, new = known.max_seq, not stored
        for doc in prepared.docs:
            new, seq = new and doc.seq > seq, doc.seq
        if new:
            self._docs.put_prepared(known.no, known.shelf, roles, prepared)
            known.max_seq = seq
            return
        for (found, texts), role in zip(texts_of(prepared), roles, strict=True):
            before = stored.get((MESSAGE, found.key))
            if before is None and found.seq <= known.max_seq and not self._docs.waiting(known.no, MESSAGE, found.seq):
                at = self._docs.at(known.no, MESSAGE, found.seq)
                before = at if at is not None and self._docs.key(at) == found.key else None
            self._put_doc(
                known, Doc(known.no, MESSAGE, found.seq, found.at, role, found.key, found.usage), texts, before
            )

    def end_session(self, info: IndexedInfo, notes: Sequence[Note], stamp: int) -> None:
        """All of it was fed. Its fingerprint is trusted if nothing of it was lost since `begin_session`; an index file
        that was put in place meanwhile knows nothing of that call.
        """
        session_id = info.session_id
        whole = self._whole.pop(session_id, None)
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        stored = whole.stored if whole is not None else self._notes(known) if notes else {}
        for note in notes:
            before = stored.get((NOTE, note.id))
            self._put_doc(known, self._note_doc(known, note), searchable_note(note), before)
        believed = whole is not None and session_id not in self._lost
        self.put_info(info if believed else msgspec.structs.replace(info, fingerprint=None), stamp)

    def remove(self, session_id: str) -> None:
        self._infos.pop(session_id, None)
        self._whole.pop(session_id, None)
        self._healed.add(session_id)
        self._left_out.passed(session_id)
        known = self._sessions.find(session_id)
        if known is not None:
            self._docs.flush()
            for kind in (MESSAGE, NOTE, NAME):
                self._docs.drop(self._docs.of(known.no, kind), known.shelf)
            self._sessions.remove(session_id, known)

    # Internals

    def _put(self, session_id: str, info: IndexedInfo) -> None:
        """The session's row, its name's document, and its shelf."""
        known = self._sessions.find(session_id) or self._sessions.make(session_id)
        old, new = known.shelf, shelf_of(info)
        believed = session_id not in self._lost or session_id in self._healed
        empty = not known.max_seq and known.name is None
        fresh = empty or (known.name is None and not self._docs.of(known.no, NAME))
        if old != new and not empty:
            self._docs.flush()
            self._docs.move(known.no, (MESSAGE, NOTE, NAME), old, new)
        if info.name != known.name:
            stored = None
            if not fresh:
                self._docs.flush()
                stored = next(iter(self._docs.of(known.no, NAME)), None)
            # A name that was made of the first message would find that message twice.
            if info.name and info.name != info.metadata.get(UNTITLED):
                doc = Doc(known.no, NAME, 0, moment(info.updated_at), 0, "")
                self._docs.put(doc, new, searchable_name(info.name), stored)
            elif stored is not None:
                self._docs.drop([stored], new)
        self._sessions.put(known, info, info.fingerprint if believed else None)

    def _notes(self, known: IndexedSession) -> dict[tuple[int, str], DocumentRow]:
        """The session's notes, if `begin_session` was lost with an index file that was replaced."""
        self._docs.flush()
        return {(NOTE, self._docs.key(stored)): stored for stored in self._docs.of(known.no, NOTE)}

    def _put_doc(self, known: IndexedSession, doc: Doc, texts: Texts, before: object) -> None:
        self._docs.put(doc, known.shelf, texts, before)  # type: ignore[arg-type]
        known.max_seq = max(known.max_seq, doc.seq)

    def _note(self, session_id: str, message_id: str, problem: str) -> None:
        self._left_out.note(session_id, f"message {message_id}: {problem}")

    def _message_doc(self, known: IndexedSession, message: Message, usage: UsageColumns | None = None) -> Doc:
        at, role = moment(message.timestamp), self._role(message.role)
        return Doc(known.no, MESSAGE, message.seq, at, role, message.id, usage)

    def _note_doc(self, known: IndexedSession, note: Note) -> Doc:
        return Doc(known.no, NOTE, note.seq, moment(note.timestamp), 0, note.id)

    def _role(self, name: str) -> int:
        found = self._roles.get(name)
        if found is None:
            found = self._roles[name] = len(self._roles) + 1
            self._db.execute("INSERT INTO role VALUES (?, ?)", (found, name))
        return found
