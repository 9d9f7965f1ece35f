"""The documents of one transaction: the tables doc, usage, chunk and fts. Runs on the writing thread.

`put` only collects; `flush` writes in few statements of many rows: every statement releases the interpreter lock and has to
wait for it again while the daemon is busy.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sessiond.index import chunks
from sessiond.index.prepared import PackedChunk, Packing, Prepared, UsageColumns, columns
from sessiond.index.schema import ARCHIVED, MESSAGE, zone
from sessiond.index.text import Texts

_MERGED_PAGES = 250
"""FTS5's own pages, of 4 KB."""
LEAST_CHUNKS, LEAST_SHARE = 512, 8
"""So many new chunks, and this part of all, are searched without the vocabulary before it is read again: that takes a while,
and costs as much as the index is large.
"""
_ROWS = (1024, 128, 32, 4, 1)
_DOC = "id, session, kind, seq, at, role, chunk, start, size"


def much_is_new(covered: int, last_chunk: int) -> bool:
    """Return whether a vocabulary that has the words of the chunks up to `covered` should be read again."""
    return last_chunk - covered > max(LEAST_CHUNKS, last_chunk // LEAST_SHARE)


class Doc(msgspec.Struct, frozen=True):
    """A document without its texts. `at` in milliseconds since 1970; a session's name lacks seq, role and key (0, 0, "")."""

    session: int
    kind: int
    seq: int
    at: int
    role: int
    key: str
    usage: UsageColumns | None = None


class DocumentRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `doc`, in the order of its columns."""

    id: int
    session: int
    kind: int
    seq: int
    at: int
    role: int
    chunk: int
    start: int
    size: int


class _Pending(msgspec.Struct):
    id: int
    doc: Doc
    shelf: int
    texts: Texts
    packed: bytes


class _Ready(msgspec.Struct):
    """Prepared messages that wait to be written. `doc`, `chunk`: the ids of the first of each."""

    session: int
    shelf: int
    roles: Sequence[int]
    prepared: Prepared
    doc: int
    chunk: int

    def doc_rows(self) -> list[tuple[object, ...]]:
        session, first, chunk = self.session, self.doc, self.chunk
        return [
            (first + i, session, MESSAGE, doc.seq, doc.at, role, chunk + doc.chunk, doc.start, doc.size)
            for i, (doc, role) in enumerate(zip(self.prepared.docs, self.roles, strict=True))
        ]

    def chunk_rows(self) -> list[tuple[object, ...]]:
        return _chunk_rows(self.prepared.chunks, self.chunk, self.doc)

    def usage_rows(self) -> list[tuple[Any, ...]]:
        docs = enumerate(self.prepared.docs, self.doc)
        return [(number, self.session, doc.at, *doc.usage) for number, doc in docs if doc.usage is not None]

    def word_rows(self) -> list[tuple[Any, ...]]:
        if self.shelf > ARCHIVED:
            return []
        first = self.doc + zone(self.shelf, MESSAGE)
        return [(first + i, *doc.columns) for i, doc in enumerate(self.prepared.docs)]


class DocumentTable:
    """`next_doc` and `next_chunk` are the lowest ids that were never used; ids of documents are never used twice."""

    def __init__(
        self, db: sqlite3.Connection, next_doc: int, next_chunk: int, covered: int = 0, late_words: int = 0
    ) -> None:
        self._db = db
        self.next_doc = next_doc
        self.next_chunk = next_chunk
        self.covered = covered
        """The words of all chunks up to this one are in the table `vocabulary`."""
        self.late_words = late_words
        """How often words were added of chunks that were written before."""
        self._pending: dict[tuple[int, int, int], _Pending] = {}
        self._rows_gone: list[int] = []
        self._usage: dict[int, Doc] = {}
        """By the ids of documents: what those that are written already report now."""
        self._words_gone: list[tuple[Any, ...]] = []
        self._chunk_refs: Counter[int] = Counter()
        self._chunk: tuple[int, bytes] = (-1, b"")
        self._ready: list[_Ready] = []
        self._prepared = 0
        """Documents in `_ready`."""

    def __len__(self) -> int:
        """Return how many documents were put since the last `flush`."""
        return len(self._pending) + self._prepared

    def put(self, doc: Doc, shelf: int, texts: Texts, before: DocumentRow | None) -> None:
        """A new document, or, with `before`, new content of an old one, which keeps its id. The same content is not a change."""
        place = (doc.session, doc.kind, doc.seq)
        packed = chunks.pack(doc.key, texts)
        waiting = self._pending.get(place)
        if waiting is not None:
            waiting.doc, waiting.texts, waiting.packed = doc, texts, packed
            return
        if before is None:
            self._pending[place] = _Pending(self.next_doc, doc, shelf, texts, packed)
            self.next_doc += 1
            return
        self._usage[before.id] = doc
        same = (before.seq, before.at, before.role) == (doc.seq, doc.at, doc.role)
        if same and self._packed(before) == packed:
            return
        self._retire(before, shelf)
        self._pending[place] = _Pending(before.id, doc, shelf, texts, packed)

    def put_prepared(self, session: int, shelf: int, roles: Sequence[int], prepared: Prepared) -> None:
        """New messages, with the numbers of their roles. The session must not have any of them."""
        self._ready.append(_Ready(session, shelf, roles, prepared, self.next_doc, self.next_chunk))
        self._prepared += len(prepared.docs)
        self.next_doc += len(prepared.docs)
        self.next_chunk += len(prepared.chunks)

    def waiting(self, session: int, kind: int, seq: int) -> bool:
        return (session, kind, seq) in self._pending

    def of(self, session: int, kind: int, after_seq: int = -1) -> list[DocumentRow]:
        """The documents of a session that are already written, by seq."""
        self._see(session, kind)
        sql = f"SELECT {_DOC} FROM doc WHERE session = ? AND kind = ? AND seq > ? ORDER BY seq"  # noqa: S608
        return [DocumentRow(*row) for row in self._db.execute(sql, (session, kind, after_seq))]

    def at(self, session: int, kind: int, seq: int) -> DocumentRow | None:
        self._see(session, kind)
        sql = f"SELECT {_DOC} FROM doc WHERE session = ? AND kind = ? AND seq = ?"  # noqa: S608
        row = self._db.execute(sql, (session, kind, seq)).fetchone()
        return None if row is None else DocumentRow(*row)

    def _see(self, session: int, kind: int) -> None:
        """Called before stored documents are looked up: writes those that came prepared."""
        if kind == MESSAGE and any(ready.session == session for ready in self._ready):
            self.flush()

    def key(self, stored: DocumentRow) -> str:
        return chunks.unpack(self._packed(stored))[0]

    def drop(self, gone: Iterable[DocumentRow], shelf: int) -> None:
        """`flush` must have been called since the last `put`."""
        for stored in gone:
            self._retire(stored, shelf)
            self._rows_gone.append(stored.id)
        self.flush()

    def move(self, session: int, kinds: Sequence[int], old: int, new: int) -> None:
        """Take a session's words from one shelf's zone to another's. `flush` must have been called since the last
        `put`.
        """
        words: list[tuple[object, ...]] = []
        moved = [doc for kind in kinds for doc in self.of(session, kind)]
        if old > ARCHIVED >= new and moved:
            self.covered = min(self.covered, min(doc.chunk for doc in moved) - 1)
            self.late_words += 1
        for stored in moved:
            words_of = columns(self._texts(stored))
            if old <= ARCHIVED:
                self._words_gone.append((stored.id + zone(old, stored.kind), *words_of))
            if new <= ARCHIVED:
                words.append((stored.id + zone(new, stored.kind), *words_of))
        self._write_words_gone()
        self._write_words(words)

    def merge(self) -> bool:
        """Merge some segments of the words, because a search reads every segment. False: nothing is left to merge."""
        before = self._db.total_changes
        self._db.execute("INSERT INTO fts (fts, rank) VALUES ('merge', ?)", (_MERGED_PAGES,))
        return self._db.total_changes - before > 1

    def flush(self) -> None:
        """Write everything that was put and dropped, oldest document first: FTS5 starts a new segment whenever a rowid is
        lower than the last.
        """
        self._write_words_gone()
        pending = sorted(self._pending.values(), key=lambda item: item.id)
        self._pending.clear()
        ready, self._ready = self._ready, []
        self._prepared = 0
        self._flush_changed_usage()
        if pending or ready:
            usage = [(p.id, p.doc.session, p.doc.at, *p.doc.usage) for p in pending if p.doc.usage is not None]
            rows = self._doc_rows(pending)
            words = [(p.id + zone(p.shelf, p.doc.kind), *columns(p.texts)) for p in pending if p.shelf <= ARCHIVED]
            written: list[tuple[object, ...]] = []
            for part in ready:
                rows.extend(part.doc_rows())
                words.extend(part.word_rows())
                written.extend(part.chunk_rows())
                usage.extend(part.usage_rows())
            self._insert("INSERT INTO chunk VALUES ", written, 5)
            self._insert("INSERT OR REPLACE INTO doc VALUES ", sorted(rows), 9)
            self._insert("INSERT OR REPLACE INTO usage VALUES ", usage, 11)
            self._write_words(words)
        if self._rows_gone:
            gone = [(doc,) for doc in self._rows_gone]
            self._db.executemany("DELETE FROM doc WHERE id = ?", gone)
            self._db.executemany("DELETE FROM usage WHERE doc = ?", gone)
            self._rows_gone = []
        if self._chunk_refs:
            self._db.executemany(
                "UPDATE chunk SET live = live - ? WHERE id = ?", [(n, c) for c, n in self._chunk_refs.items()]
            )
            self._db.executemany("DELETE FROM chunk WHERE id = ? AND live <= 0", [(c,) for c in self._chunk_refs])
            self._chunk_refs.clear()
            self._chunk = (-1, b"")

    def _flush_changed_usage(self) -> None:
        changed, self._usage = self._usage, {}
        if changed:
            self._db.executemany("DELETE FROM usage WHERE doc = ?", [(number,) for number in changed])
            rows = [
                (number, doc.session, doc.at, *doc.usage) for number, doc in changed.items() if doc.usage is not None
            ]
            self._insert("INSERT INTO usage VALUES ", rows, 11)

    def _doc_rows(self, pending: list[_Pending]) -> list[tuple[object, ...]]:
        """The rows of documents; this also puts their texts into new chunks, whose documents have consecutive ids."""
        rows: list[tuple[object, ...]] = []
        packing = Packing()
        for i, item in enumerate(pending):
            doc = item.doc
            if i and item.id != pending[i - 1].id + 1:
                packing.close()
            chunk, start, size = packing.add(item.packed)
            place = (self.next_chunk + chunk, start, size)
            rows.append((item.id, doc.session, doc.kind, doc.seq, doc.at, doc.role, *place))
        packed = packing.end()
        written: list[tuple[object, ...]] = []
        at = 0
        for one in packed:
            written.extend(_chunk_rows([one], self.next_chunk, pending[at].id))
            self.next_chunk += 1
            at += one.live
        self._insert("INSERT INTO chunk VALUES ", written, 5)
        return rows

    def _retire(self, stored: DocumentRow, shelf: int) -> None:
        if shelf <= ARCHIVED:
            self._words_gone.append((stored.id + zone(shelf, stored.kind), *columns(self._texts(stored))))
        self._chunk_refs[stored.chunk] += 1

    def _packed(self, stored: DocumentRow) -> bytes:
        if self._chunk[0] != stored.chunk:
            row = self._db.execute("SELECT data FROM chunk WHERE id = ?", (stored.chunk,)).fetchone()
            if row is None:
                raise chunks.DamagedChunk("a chunk is missing")
            self._chunk = (stored.chunk, chunks.decompress(row[0]))
        return self._chunk[1][stored.start : stored.start + stored.size]

    def _texts(self, stored: DocumentRow) -> Texts:
        return chunks.unpack(self._packed(stored))[1]  # type: ignore[return-value]

    def _write_words(self, rows: list[tuple[Any, ...]]) -> None:
        rows.sort(key=lambda row: row[0])
        self._insert("INSERT INTO fts (rowid, body, tool, parts, tool_parts, thought, thought_parts) VALUES ", rows, 7)

    def _write_words_gone(self) -> None:
        """FTS5 does not keep the text, so it has to be given the words that it should remove."""
        gone, self._words_gone = sorted(self._words_gone, key=lambda row: row[0]), []
        rows = [("delete", *row) for row in gone]
        self._insert(
            "INSERT INTO fts (fts, rowid, body, tool, parts, tool_parts, thought, thought_parts) VALUES ", rows, 8
        )

    def _insert(self, head: str, rows: Sequence[tuple[object, ...]], width: int) -> None:
        at = 0
        for count in _ROWS:
            while len(rows) - at >= count:
                some = rows[at : at + count]
                self._db.execute(_many(head, count, width), [value for row in some for value in row])
                at += count


def _chunk_rows(chunks: Iterable[PackedChunk], number: int, doc: int) -> list[tuple[object, ...]]:
    """Return the rows of chunks with consecutive numbers and documents, from these on."""
    rows: list[tuple[object, ...]] = []
    for i, chunk in enumerate(chunks):
        rows.append((number + i, chunk.live, doc, chunk.starts, chunk.data))
        doc += chunk.live
    return rows


@lru_cache(maxsize=64)
def _many(head: str, rows: int, width: int) -> str:
    return head + ", ".join(["(" + ", ".join("?" * width) + ")"] * rows)
