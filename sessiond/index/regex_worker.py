"""The process of mode regex: reads requests on standard input, answers on standard output, ends with its input. `regex.py`
starts and kills it.

Run as a script in a bare interpreter (`-I -S`), so it imports only the standard library, four pure modules of this package
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
from collections.abc import Iterator
from contextlib import closing
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.chunks import DamagedChunk, decompress, unpack
from sessiond.index.narrowing import match_expression, needed
from sessiond.index.sieve import Sieve, sieve
from sessiond.index.snippets import clip, window

_MEMORY_BYTES = 2 * 1024**3
_DOC_ID = (1 << 40) - 1
"""schema.ZONE_BITS, which this process does not import."""
_BLOCK = 64
"""How many consecutive chunks go into one share."""
_FEW = 1000
"""Up to this many documents are searched one by one; if there are more, their chunks are sifted first if they are a large part of all."""
_SAMPLE = 200
"""Chunks after which it is clear whether sifting excludes anything."""
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


def _answered(request: dict[str, Any]) -> dict[str, Any]:
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
    db.execute("BEGIN")
    return db


def _search(db: sqlite3.Connection, request: dict[str, Any], pattern: re.Pattern[str]) -> dict[str, Any]:
    found: list[list[int]] = []
    shown: dict[int, Any] = {}
    number, of = request["share"]
    share = _Share(number, of, request["last"])
    lets = sieve(pattern)
    narrow = _narrowed(db, pattern, share.few)
    if not narrow and lets is not None and share.many(db, request["queries"]):
        narrow = _sifted(db, lets, share)
        if not narrow:  # it excludes almost nothing
            lets = None
    for sql, order, params in request["queries"]:
        found.append([])
        for doc, packed in _documents(db, f"{sql} {share.condition('doc.chunk')} {narrow} {order}", params):
            if lets is not None and not lets(packed):
                continue
            for kind, text in unpack(packed)[1]:
                if kind != "thought" and (match := pattern.search(text)):
                    found[-1].append(doc)
                    if len(shown) < request["limit"]:
                        shown[doc] = _show(pattern, text, match)
                    break
    return {"ids": found, "shown": shown}


class _Share:
    """The chunks that this process searches."""

    def __init__(self, number: int, of: int, last: int) -> None:
        self._number, self._of, self._last = number, of, last
        self.few = max(_FEW, last // 4)

    def condition(self, chunk: str) -> str:
        if self._of == 1:
            return ""
        return f"AND ({chunk} / {_BLOCK} % {self._of} = {self._number} OR {chunk} > {self._last})"

    def many(self, db: sqlite3.Connection, queries: list[Any]) -> bool:
        """Whether the queries have more documents than are searched one by one."""
        return any(
            db.execute(f"SELECT count(*) FROM ({sql} LIMIT {self.few})", params).fetchone()[0] >= self.few  # noqa: S608
            for sql, _, params in queries
        )


def _narrowed(db: sqlite3.Connection, pattern: re.Pattern[str], few: int) -> str:
    """A condition that admits every document in which the pattern can be found, by the words it must contain; empty if they
    occur in more than a few.
    """
    need = needed(pattern)
    if need is None:
        return ""
    try:
        sql = f"SELECT rowid & {_DOC_ID} FROM fts WHERE fts MATCH ? LIMIT {few}"  # noqa: S608
        found = db.execute(sql, (f"{{body tool}} : ({match_expression(need)})",)).fetchall()
    except sqlite3.OperationalError:  # an expression that is too large for it
        return ""
    if len(found) == few:
        return ""
    db.execute("CREATE TABLE temp.narrowed (id INTEGER PRIMARY KEY)")
    db.executemany("INSERT OR IGNORE INTO temp.narrowed VALUES (?)", found)
    return "AND doc.id IN (SELECT id FROM temp.narrowed)"


def _sifted(db: sqlite3.Connection, lets: Sieve, share: _Share) -> str:
    """A condition that admits every document of the share's chunks that the sieve admits; empty if those are most."""
    found: list[tuple[int]] = []
    rows = db.execute(f"SELECT id, data FROM chunk WHERE 1 {share.condition('id')} ORDER BY id")  # noqa: S608
    for number, (chunk, data) in enumerate(rows):
        if lets(decompress(data)):
            found.append((chunk,))
        if number == _SAMPLE and len(found) > _SAMPLE // 2:
            return ""
    db.execute("CREATE TABLE temp.sifted (id INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO temp.sifted VALUES (?)", found)
    db.execute("CREATE TABLE temp.narrowed (id INTEGER PRIMARY KEY)")
    # In one pass: the table is not indexed by chunk.
    db.execute("INSERT INTO temp.narrowed SELECT id FROM doc WHERE chunk IN (SELECT id FROM temp.sifted)")
    return "AND doc.id IN (SELECT id FROM temp.narrowed)"


def _documents(db: sqlite3.Connection, sql: str, params: Any) -> Iterator[tuple[int, bytes]]:
    """Ids and packed texts; neighbours mostly share a chunk."""
    chunk, data = -1, b""
    for doc, wanted, start, size in db.execute(sql, params):
        if wanted != chunk:
            row = db.execute("SELECT data FROM chunk WHERE id = ?", (wanted,)).fetchone()
            if row is None:
                raise DamagedChunk("a chunk is missing")
            chunk, data = wanted, decompress(row[0])
        yield doc, data[start : start + size]


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
