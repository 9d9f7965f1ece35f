"""Complete sources as their tools came to write them: step by step, each step a state in which the source may be looked at.

A database is written row by row. A row that holds a conversation as a document, and a file that is one, grow message by message, and
a message may first be there without its end, or without its result.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from sessiond.importers import protobuf
from tests.importers.test_warp_import import field

Path_ = tuple[Any, ...]
_SPOKEN = frozenset({
    "role", "type", "sender", "message", "content", "text", "User", "Agent", "user", "assistant", "author", "versions", "header",
    "bubbleId", "kind", "request", "toolCallId", "segments",
})  # fmt: skip
_RESULTS = ("output", "result", "rawOutput")
_TITLES = ("title", "name")
_POINTERS = ("currentId", "current_node", "lastMessageId")
_ZSTD = b"\x28\xb5\x2f\xfd"


# Documents


def document_versions(value: Any) -> list[Any]:
    """A document while its conversation grows, message by message; the last is the whole. Only itself if it has no conversation."""
    path = _conversation(value)
    if path is None:
        return [value]
    whole = _at(value, path)
    keys = list(whole) if isinstance(whole, dict) else list(range(len(whole)))
    found = []
    for nth, key in enumerate(keys):
        for version in message_versions(whole[key]):
            there = {**{one: whole[one] for one in keys[:nth]}, key: version}
            many = there if isinstance(whole, dict) else list(there.values())
            found.append(_pointed(_with(value, path, many), key, keys[nth + 1 :]))
    return [*found[:-1], value]


def shortened(value: Any, *, beginning: bool) -> Any:
    """A document without the first or second half of its conversation. Itself if it has none."""
    path = _conversation(value)
    if path is None:
        return value
    whole = _at(value, path)
    keep = slice(len(whole) // 2, None) if beginning else slice(len(whole) // 2)
    if not isinstance(whole, dict):
        return _with(value, path, whole[keep])
    kept = list(whole)[keep]
    return _pointed(
        _with(value, path, {one: whole[one] for one in kept}), kept[-1], [one for one in whole if one not in kept]
    )


def summarised(value: Any, summary: str) -> Any:
    """A document in which a prompt with these words stands for the first half of its conversation."""
    less = shortened(value, beginning=True)
    path = _conversation(value)
    prompt = next(one for one in _at(value, path) if isinstance(one, dict) and any(_texts(one)))
    said = _replaced(prompt, max(_texts(prompt), key=len), summary)
    said = {key: f"{one}-summary" if key in ("id", "messageId") else one for key, one in said.items()}
    return _with(less, path, [said, *_at(less, path)])


def has_conversation(value: Any) -> bool:
    return _conversation(value) is not None


def newest_first(value: list[Any]) -> list[list[Any]]:
    """A list whose first entry is the newest, while it grows."""
    return [value[-count:] for count in range(1, len(value) + 1)]


def message_versions(message: Any) -> list[Any]:
    """A message while it is written: its parts come one by one, a text has half of its words, a call has no result yet."""
    if not isinstance(message, dict) or _asked(message):
        return [message]
    path = _parts(message)
    parts = _at(message, path) if path else []
    found = []
    for count in range(1, len(parts) + 1):
        cut = _with(message, path, parts[: count - 1]) if path else message
        found += [_with(message, path, [*_at(cut, path), one]) for one in _begun(parts[count - 1])]
    found = found or list(_begun(message))
    found.append(message)
    return [one for nth, one in enumerate(found) if one not in found[:nth]]


def _asked(message: dict[str, Any]) -> bool:
    """Whether it is a prompt, which is complete when it is sent."""
    inner = message.get("message")
    return (
        message.get("role") in ("user", "human")
        or (isinstance(inner, dict) and inner.get("role") == "user")
        or message.get("sender") == "human"
        or "User" in message
        or message.get("type") == 1
    )


def _begun(part: Any) -> Iterator[Any]:
    """Earlier versions of a part, and itself."""
    if isinstance(part, dict):
        waiting = _without_result(part)
        if waiting != part:
            yield waiting
        else:
            text = max(_texts(part), key=len, default="")
            if len(text) > 3:
                yield _replaced(part, text, text[: len(text) // 2])
    yield part


def _without_result(part: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for key, value in part.items():
        if (
            isinstance(value, dict)
            and any(one in value for one in _RESULTS)
            and any(one in value for one in ("input", "name", "status"))
        ):
            value = {one: held for one, held in value.items() if one not in (*_RESULTS, "error", "status")} | {
                "status": "running"
            }
        out[key] = value
    return out


def _texts(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for key, one in value.items():
        if isinstance(one, str) and key in ("text", "content", "thinking", "Text", "response", "summary"):
            yield one
        elif isinstance(one, dict):
            yield from _texts(one)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, old, new) for key, one in value.items()}
    return new if value == old else value


def _conversation(value: Any) -> Path_ | None:
    """Where the longest list, or object, of messages is."""
    found = [path for path, many in _many(value, ()) if _spoken(many)]
    return max(found, key=lambda path: len(json.dumps(_at(value, path))), default=None)


def _parts(message: dict[str, Any]) -> Path_ | None:
    found = [
        path
        for path, many in _many(message, ())
        if isinstance(many, list) and all(isinstance(one, dict) for one in many)
    ]
    return max(found, key=lambda path: len(json.dumps(_at(message, path))), default=None)


def _many(value: Any, path: Path_) -> Iterator[tuple[Path_, Any]]:
    if isinstance(value, (dict, list)):
        if len(value) > 1:
            yield path, value
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _many(one, (*path, key))


def _spoken(many: Any) -> bool:
    ones = list(many.values()) if isinstance(many, dict) else many
    said = [one for one in ones if isinstance(one, dict) and one.keys() & _SPOKEN]
    return bool(ones) and all(isinstance(one, (dict, str)) for one in ones) and 2 * len(said) > len(ones)


def _at(value: Any, path: Path_ | None) -> Any:
    for key in path or ():
        value = value[key]
    return value


def _with(value: Any, path: Path_ | None, new: Any) -> Any:
    if not path:
        return new
    out = copy.copy(value)
    out[path[0]] = _with(value[path[0]], path[1:], new)
    return out


def _pointed(value: Any, last: Any, later: list[Any]) -> Any:
    """With what names the last message of a tree naming one that is there."""
    if not isinstance(value, dict):
        return [_pointed(one, last, later) for one in value] if isinstance(value, list) else value
    out = {}
    for key, one in value.items():
        inner = isinstance(one, dict) and any(name in one for name in _POINTERS)
        out[key] = last if key in _POINTERS and one in later else _pointed(one, last, later) if inner else one
    return out


# Databases


class _Row(NamedTuple):
    """`versions`: its values while it is written again and again. `after`: rows that must be there before it. `titled`: the last
    version gives it its title.
    """

    table: str
    rowid: int
    versions: list[tuple[Any, ...]]
    after: list[int]
    titled: bool


class Rows:
    """The rows of a complete database, to be written into another one of the same schema."""

    def __init__(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            schema = db.execute(
                "SELECT name, type, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
            ).fetchall()
            self._schema = [sql for _, _, sql in schema]
            self._rows: list[_Row] = []
            keys: dict[Any, int] = {}
            for table in [name for name, kind, _ in schema if kind == "table"]:
                cursor = db.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid')
                names = [one[0] for one in cursor.description][1:]
                for rowid, *values in cursor.fetchall():
                    after = [keys[one] for one in values[1:] if isinstance(one, str) and one in keys]
                    titled = any(
                        name in _TITLES and isinstance(one, str) for name, one in zip(names, values, strict=True)
                    )
                    self._rows.append(_Row(table, rowid, _row_versions(names, values, titled=titled), after, titled))
                    if isinstance(values[0], str):
                        keys[values[0]] = len(self._rows) - 1

    def written(self, path: Path, order: random.Random | None, *, log: bool = False) -> Iterator[Callable[[], object]]:
        """The transactions, each of which writes one version of a row. `order` None: table after table; otherwise rows of all tables,
        and later versions of earlier ones, come between each other. `log`: the database has a write-ahead log, and stays open.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA synchronous = OFF")
            if log:
                db.execute("PRAGMA journal_mode = WAL")
            for sql in self._schema:
                db.execute(sql)
            for nth, version in self._in_turn() if order is None else self._mixed(order):
                yield lambda nth=nth, version=version: self._write(db, self._rows[nth], version)

    def _in_turn(self) -> Iterator[tuple[int, int]]:
        """A row's versions follow one another; titles come when all is said."""
        late = []
        for nth, row in enumerate(self._rows):
            last = len(row.versions) - 1
            yield from ((nth, version) for version in range(last if row.titled else last + 1))
            late += [(nth, last)] if row.titled else []
        yield from late

    def _mixed(self, chance: random.Random) -> Iterator[tuple[int, int]]:
        there = [0] * len(self._rows)
        while True:
            ready = []
            begun: set[str] = set()
            for nth, row in enumerate(self._rows):
                if there[nth]:
                    ready += [nth] if there[nth] < len(row.versions) else []
                elif row.table not in begun:
                    begun.add(row.table)  # a table's rows come in order
                    ready += [nth] if all(there[one] for one in row.after) else []
            if not ready:
                return
            nth = chance.choice(ready)
            yield nth, there[nth]
            there[nth] += 1

    def _write(self, db: sqlite3.Connection, row: _Row, version: int) -> None:
        values = row.versions[version]
        with db:
            if version == 0:
                places = ", ".join("?" * len(values))
                db.execute(f'INSERT INTO "{row.table}" VALUES ({places})', values)
                db.execute(f'UPDATE "{row.table}" SET rowid = ? WHERE rowid = last_insert_rowid()', (row.rowid,))
                return
            names = [one[1] for one in db.execute(f'PRAGMA table_info("{row.table}")')]
            given = ", ".join(f'"{name}" = ?' for name in names)
            db.execute(f'UPDATE "{row.table}" SET {given} WHERE rowid = ?', (*values, row.rowid))


def _row_versions(names: list[str], values: list[Any], *, titled: bool) -> list[tuple[Any, ...]]:
    """A row that holds a document grows with it; a title comes last."""
    cells = [_cell_versions(value) for value in values]
    longest = max(range(len(cells)), key=lambda nth: len(cells[nth]))
    found = []
    for one in cells[longest]:
        row = list(values)
        row[longest] = one
        for nth, name in enumerate(names):
            if name in _TITLES and isinstance(values[nth], str):
                row[nth] = "New"
        found.append(tuple(row))
    return [*found, tuple(values)] if titled else found


def _cell_versions(value: Any) -> list[Any]:
    given = document_of(value)
    if given is None:
        return [value]
    versions = document_versions(given)
    versions = versions if len(versions) > 1 else message_versions(given)
    return [*(as_before(value, one) for one in versions[:-1]), value]


def document_of(cell: Any) -> Any:
    """The document that a cell of a database holds, which may be compressed; None if it holds none."""
    if isinstance(cell, bytes) and cell.startswith(_ZSTD):
        cell = zstandard.ZstdDecompressor().decompressobj().decompress(cell)
    if isinstance(cell, (str, bytes)) and cell[:1] in ("{", "[", b"{", b"["):
        return json.loads(cell)
    return None


def as_before(cell: str | bytes, document: Any) -> str | bytes:
    """Another document in the form of a cell."""
    text = json.dumps(document)
    if isinstance(cell, str):
        return text
    return zstandard.ZstdCompressor().compress(text.encode()) if cell.startswith(_ZSTD) else text.encode()


def task_versions(task: bytes) -> list[bytes]:
    """A task of Warp's, whose messages are its fields of number 5."""
    found = protobuf.fields(task)
    rest = b"".join(field(number, one) for number, many in found.items() if number != 5 for one in many)
    messages = [field(5, one) for one in found.get(5, [])]
    return [*(rest + b"".join(messages[:count]) for count in range(1, len(messages))), task]


Statement = tuple[Any, ...]
"""SQL and its values."""


def transactions(
    path: Path, schema: str, many: Iterable[Iterable[Statement]], *, log: bool = False
) -> Iterator[Callable[[], object]]:
    """Each of `many` as a transaction of its own on a new database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        if log:
            db.execute("PRAGMA journal_mode = WAL")
        db.executescript(schema)

        def commit(statements: Iterable[Statement]) -> None:
            with db:
                for sql, *values in statements:
                    db.execute(sql, values)

        for statements in many:
            yield lambda statements=statements: commit(statements)


# JSON Lines


def record_ends(whole: bytes) -> list[int]:
    return [at + 1 for at, byte in enumerate(whole) if byte == 10]


def dated(
    states: Iterable[Callable[[], object]], folder: Path, *, at: int = 1_700_000_000
) -> Iterator[Callable[[], object]]:
    """The same states; files are as old at each of them, but not to the microsecond. Where a source has no times, that of its last write
    stands in, which would differ from look to look.
    """
    for nth, state in enumerate(states):

        def written(state: Callable[[], object] = state, nth: int = nth) -> None:
            state()
            for path in folder.rglob("*"):
                if path.is_file():
                    touch(path, at, nth)

        yield written


def touch(path: Path, at: int, nth: int) -> None:
    os.utime(path, ns=(at * 10**9 + nth * 10, at * 10**9 + nth * 10))
