"""Mode regex's process: reads one request on standard input, answers on standard output, ends. Started by `regex.py`,
killed by it.

Run as a script in a bare interpreter (`-I -S`), so it imports the standard library, three pure modules of this package and,
from `library`, what the chunks are compressed with. The kernel ends it a moment after its time even if nobody is left to kill it.

    request   {"path", "library", "pattern", "seconds", "limit", "queries": [[sql, order, params], ...]}    each query: rows of doc id,
    chunk, start, size; a condition may be put before its order
    answer    {"ids": [...], "shown": {id: [snippet, [[start, end], ...]]}}   of the first `limit` ids;  or {"error",
    "position"};  or {"damage"}
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
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.chunks import DamagedChunk, decompress, unpack
from sessiond.index.narrowing import match_expression, needed
from sessiond.index.snippets import clip, window

_MEMORY_BYTES = 2 * 1024**3
_DOC_ID = (1 << 40) - 1
"""schema.ZONE_BITS, which this process does not import."""
_CUT_WORD_CHARS = 8000
"""FTS5 keeps the first 32,768 bytes of a word, which may be a quarter as many characters."""
_MOST_WORDS = 300
_RANGES = 100
"""No more ranges than these are looked for in one snippet."""


def main() -> None:
    request = json.load(sys.stdin)
    sys.path.append(request["library"])
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1.0)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    warnings.simplefilter("ignore")
    try:
        answer = _search(request, re.compile(request["pattern"]))
    except re.error as error:
        answer = {"error": error.msg, "position": error.pos or 0}
    except (OverflowError, RecursionError) as error:
        answer = {"error": f"it cannot be compiled: {error}", "position": 0}
    except (sqlite3.Error, DamagedChunk) as error:
        answer = {"damage": str(error)}
    sys.stdout.write(json.dumps(answer))


def _search(request: dict[str, Any], pattern: re.Pattern[str]) -> dict[str, Any]:
    db = sqlite3.connect(f"file:{request['path']}?mode=ro", uri=True, timeout=5.0, isolation_level=None)
    db.execute("BEGIN")
    ids: list[int] = []
    shown: dict[int, Any] = {}
    narrow = _narrowed(db, pattern)
    for sql, order, params in request["queries"]:
        for doc, packed in _documents(db, f"{sql} {narrow} {order}", params):
            for kind, text in unpack(packed)[1]:
                if kind != "thought" and (match := pattern.search(text)):
                    ids.append(doc)
                    if len(shown) < request["limit"]:
                        shown[doc] = _show(pattern, text, match)
                    break
    return {"ids": ids, "shown": shown}


def _narrowed(db: sqlite3.Connection, pattern: re.Pattern[str]) -> str:
    """A condition that lets through every document in which the pattern can be found, by the words it must have."""
    need = needed(pattern)
    expression = match_expression(need, lambda text: _words_with(db, text)) if need is not None else None
    if expression is None:
        return ""
    if not expression:
        return "AND 0"
    db.execute("CREATE TABLE temp.narrowed (id INTEGER PRIMARY KEY)")
    try:
        sql = f"INSERT OR IGNORE INTO temp.narrowed SELECT rowid & {_DOC_ID} FROM fts WHERE fts MATCH ?"  # noqa: S608
        db.execute(sql, (f"{{body tool}} : ({expression})",))
    except sqlite3.OperationalError:  # an expression that is too large for it
        return ""
    return "AND doc.id IN (SELECT id FROM temp.narrowed)"


def _words_with(db: sqlite3.Connection, text: str) -> list[str] | None:
    """FTS5 strings for the words of the index that hold a text, which must be ASCII. Words that FTS5 has only the beginning
    of may hold anything.
    """
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, fts, row)")
    sql = "SELECT substr(term, 1, ?1) FROM temp.vocabulary WHERE instr(term, ?2) OR length(term) > ?1 LIMIT ?3"
    found = [term for (term,) in db.execute(sql, (_CUT_WORD_CHARS, text, _MOST_WORDS + 1))]
    if len(found) > _MOST_WORDS:
        return None
    return [f'"{term}" *' if len(term) == _CUT_WORD_CHARS else f'"{term}"' for term in found]


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
