"""Documents by their ids -> hits: the step between finding and showing, for every mode of search. Runs on a reading thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from sessiond.index.chunks import DamagedChunk, decompress, unpack
from sessiond.index.schema import MESSAGE, NAME
from sessiond.index.values import Hit
from sessiond.model.values import timestamp

Snippet: TypeAlias = tuple[str, list[tuple[int, int]]]
Show: TypeAlias = Callable[[int, Sequence[tuple[str, str]]], Snippet]
"""(id, texts of a document as (kind, text)) -> the piece to show and the ranges in it."""

_SQL = """
SELECT doc.id, doc.kind, doc.seq, doc.at, doc.chunk, doc.start, doc.size, role.name, s.id, s.name, s.updated
FROM doc JOIN session s ON s.no = doc.session JOIN role ON role.no = doc.role
WHERE doc.id IN (SELECT value FROM json_each(?)) AND s.shelf = ?
"""


def hits_of(db: sqlite3.Connection, found: Iterable[tuple[int, float]], shelf: int, show: Show) -> list[Hit]:
    """Hits in the order of `found`, (id, score) pairs. Documents that are gone or no longer on the shelf are left out."""
    found = list(found)
    rows = {row[0]: row for row in db.execute(_SQL, (json.dumps([doc for doc, _ in found]), shelf))}
    data = _chunks(db, {row[4] for row in rows.values()})
    hits = []
    for doc, score in found:
        if doc not in rows:
            continue
        _, kind, seq, at, chunk, start, size, role, session_id, name, updated = rows[doc]
        key, texts = unpack(data[chunk][start : start + size])
        snippet, ranges = show(doc, texts)
        hits.append(
            Hit(
                session_id=session_id,
                name=name,
                message_id=key if kind == MESSAGE else None,
                seq=None if kind == NAME else seq,
                role=role if kind == MESSAGE else None,
                timestamp=timestamp(updated if kind == NAME else at),
                snippet=snippet,
                ranges=[[start, end] for start, end in ranges],
                score=score,
            )
        )
    return hits


def _chunks(db: sqlite3.Connection, wanted: set[int]) -> dict[int, bytes]:
    sql = "SELECT id, data FROM chunk WHERE id IN (SELECT value FROM json_each(?))"
    found = {chunk: decompress(data) for chunk, data in db.execute(sql, (json.dumps(sorted(wanted)),))}
    if len(found) < len(wanted):
        raise DamagedChunk("a chunk is missing")
    return found
