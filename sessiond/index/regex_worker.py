"""The process of mode regex: reads requests on standard input, answers on standard output, ends with its input. `regex.py`
starts and kills it.

Run as a script in a bare interpreter (`-I -S`), so it imports only the standard library, pure modules of this package
and, from `libraries`, the compression of the chunks and RE2. The kernel ends it a moment after a request's time even if
nothing is left to kill it. One line of JSON each way:

    request   {"path", "libraries", "pattern", "seconds", "limit", "share": [number, of how many], "last", "queries": [[sql, order,
    params], ...]}    each query: rows of doc id, chunk, start, size; a condition may be put before its order
    answer    {"ids": [[...] for each query], "shown": {id: [snippet, [[start, end], ...]]}}   of the first `limit` ids;  or {"error",
    "position"};  or {"damage"}

A share is some of the chunks, and all after `last`, the newest one that the caller has seen: every process searches what is
written meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.chunks import DamagedChunk, decompress
from sessiond.index.functions import define_functions
from sessiond.index.narrowing import NEVER, Need, has_parts, in_words, match_expression, needed
from sessiond.index.scanning import first_match, scanned
from sessiond.index.sieve import sieve
from sessiond.index.snippets import clip, window
from sessiond.index.vocabulary import vocabulary_of

_MEMORY_BYTES = 2 * 1024**3
_DOC_ID = (1 << 40) - 1
"""schema.ZONE_BITS, which this process does not import."""
_BLOCK = 16
"""How many consecutive chunks go into one share."""
_FEW = 1000
"""Up to this many documents are searched one by one; of more, whole chunks are searched if that is less work."""
_VERY_FEW = 200
"""Up to this many documents are not narrowed further."""
_MANY_HITS = 50_000
"""More hits are filtered while all documents are listed."""
_RANGES = 100
"""The most ranges that are searched for in one snippet."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1.0)
        sys.path.extend(folder for folder in request["libraries"] if folder not in sys.path)
        answer = json.dumps(_answered(request))
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _answered(request: dict[str, Any]) -> dict[str, object]:
    try:
        pattern = re.compile(request["pattern"])
    except re.error as error:
        return {"error": error.msg, "position": error.pos or 0}
    except (OverflowError, RecursionError, ValueError) as error:  # ValueError: flags that exclude each other
        return {"error": f"it cannot be compiled: {error}", "position": 0}
    try:
        with closing(_opened(request["path"])) as db:
            return _search(db, request, pattern)
    except RecursionError as error:
        return {"error": f"it cannot be searched for: {error}", "position": 0}
    except (sqlite3.Error, DamagedChunk) as error:
        return {"damage": str(error)}


def _opened(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0, isolation_level=None)
    define_functions(db)
    db.execute("BEGIN")
    return db


def _search(db: sqlite3.Connection, request: dict[str, Any], pattern: re.Pattern[str]) -> dict[str, object]:
    queries = request["queries"]
    number, of = request["share"]
    share = _Share(db, number, of, request["last"])
    lets = sieve(pattern)
    narrowed = _narrowed(db, pattern, share.few)
    found: dict[int, int] = {}
    if narrowed is None and share.many(queries):
        found = scanned(pattern, lets, share.chunks())
    else:
        admitted = "" if narrowed is None else _among(db, narrowed.ids)
        for sql, order, params in queries:
            ordered = f"{sql} {share.condition('doc.chunk')} {admitted} {order}"
            for doc, chunk, data, start, end in _documents(db, ordered, params):
                if (lets is None or lets(data[start:end])) and first_match(pattern, data, start, end) is not None:
                    found[doc] = chunk
        if narrowed is not None and narrowed.covered is not None:
            found |= scanned(pattern, lets, share.chunks(narrowed.covered))
    ids = _ordered(db, queries, found)
    return {"ids": ids, "shown": _shown(db, pattern, list(islice(chain(*ids), request["limit"])))}


class _Share:
    """The chunks that this process searches."""

    def __init__(self, db: sqlite3.Connection, number: int, of: int, last: int) -> None:
        self._db = db
        self._number, self._of, self._last = number, of, last
        self.few = max(_FEW, last // 4)

    def condition(self, chunk: str) -> str:
        if self._of == 1:
            return ""
        return f"AND ({chunk} / {_BLOCK} % {self._of} = {self._number} OR {chunk} > {self._last})"

    def chunks(self, after: int = 0) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Those after that one."""
        sql = f"SELECT id, first, starts, data FROM chunk WHERE id > ? {self.condition('id')} ORDER BY id"  # noqa: S608
        return self._db.execute(sql, (after,))

    def many(self, queries: list[Any]) -> bool:
        """Return whether the queries have more documents than are searched one by one."""
        return any(
            self._db.execute(f"SELECT count(*) FROM ({sql} LIMIT {self.few})", params).fetchone()[0] >= self.few  # noqa: S608
            for sql, _, params in queries
        )


class _Narrowed(NamedTuple):
    """The documents that have the words of a pattern. `covered`: only those of chunks up to this one are known."""

    ids: list[int]
    covered: int | None


def _narrowed(db: sqlite3.Connection, pattern: re.Pattern[str], few: int) -> _Narrowed | None:
    """None if the words that it must contain are unknown, or occur in more than a few documents."""
    need = needed(pattern)
    if need is None:
        return None
    whole = in_words(need, lambda _: None)
    ids = _having(db, whole, min(few, _VERY_FEW if has_parts(need) else few))
    if ids is not None:
        return _Narrowed(ids, None)
    if has_parts(need) and (vocabulary := vocabulary_of(db)).covered:
        ids = _having(db, in_words(need, vocabulary.holding), few)
        if ids is not None:
            return _Narrowed(ids, vocabulary.covered)
    ids = _having(db, whole, few)
    return None if ids is None else _Narrowed(ids, None)


def _having(db: sqlite3.Connection, need: Need | None, few: int) -> list[int] | None:
    """The documents that have it; None if those are not few, or nothing is needed."""
    if need is None or need == NEVER:
        return None if need is None else []
    try:
        sql = f"SELECT rowid & {_DOC_ID} FROM fts WHERE fts MATCH ? LIMIT {few}"  # noqa: S608
        found = [doc for (doc,) in db.execute(sql, (f"{{body tool}} : ({match_expression(need)})",))]
    except sqlite3.OperationalError:  # an expression that is too large for it
        return None
    return None if len(found) == few else found


def _among(db: sqlite3.Connection, ids: Iterable[int]) -> str:
    """The condition for these documents. One such condition at a time."""
    db.execute("DROP TABLE IF EXISTS temp.ids")
    db.execute("CREATE TABLE temp.ids (id INTEGER PRIMARY KEY)")
    db.executemany("INSERT OR IGNORE INTO temp.ids VALUES (?)", ((doc,) for doc in ids))
    return "AND doc.id IN (SELECT id FROM temp.ids)"


def _ordered(db: sqlite3.Connection, queries: list[Any], found: dict[int, int]) -> list[list[int]]:
    """Those of the documents that the queries have, in their order; not what has left its chunk since."""
    admitted = _among(db, found) if len(found) < _MANY_HITS else ""
    return [
        [doc for doc, chunk, _, _ in db.execute(f"{sql} {admitted} {order}", params) if found.get(doc) == chunk]
        for sql, order, params in queries
    ]


def _documents(db: sqlite3.Connection, sql: str, params: Any) -> Iterator[tuple[int, int, bytes, int, int]]:
    """Ids, chunks, what is in the chunk, and where in it the document begins and ends; neighbours mostly share a chunk."""
    chunk, data = -1, b""
    for doc, wanted, start, size in db.execute(sql, params):
        if wanted != chunk:
            row = db.execute("SELECT data FROM chunk WHERE id = ?", (wanted,)).fetchone()
            if row is None:
                raise DamagedChunk("a chunk is missing")
            chunk, data = wanted, decompress(row[0])
        yield doc, wanted, data, start, start + size


def _shown(db: sqlite3.Connection, pattern: re.Pattern[str], ids: list[int]) -> dict[int, Any]:
    sql = "SELECT id, chunk, start, size FROM doc WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    shown = {}
    for doc, _, data, start, end in _documents(db, sql, (json.dumps(ids),)):
        if (match := first_match(pattern, data, start, end)) is not None:
            shown[doc] = _show(pattern, match.string, match)
    return shown


def _show(pattern: re.Pattern[str], text: str, first: re.Match[str]) -> tuple[str, list[tuple[int, int]]]:
    start, end = window(text, *first.span())
    ranges: list[tuple[int, int]] = []
    for match in pattern.finditer(text, first.start()):
        if match.start() >= end or len(ranges) >= _RANGES:
            break
        ranges.append(match.span())
    return text[start:end], clip(ranges, start, end)


if __name__ == "__main__":
    main()
