"""`session/list`: sessions in order, from the session table alone. Runs on a reading thread.

A page continues exactly where the last one ended, even if sessions move in the order meanwhile: the cursor names the epoch
of the first page, and a session that has changed since is where its keys of that epoch put it (`history`). Orders are not
kept in memory, so a cursor lives as long as the index file, unless so much has happened that the history was cut.

Lists do not wait for the writing thread: a first page shows uncommitted changes (`Unseen`) as if they were committed. The
epoch of its cursor does not include them, so the cursor says where the first page had these sessions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from sessiond.errors import InvalidParams
from sessiond.index import cursors
from sessiond.index.filters import CheckedFilter, Conditions, fits, page_limit, parse_filter, session_conditions
from sessiond.index.schema import DELETED, UNKNOWN
from sessiond.index.sessions import keys_of
from sessiond.index.values import DEFAULT_SORT, IndexedInfo, ListQuery, SessionPage, Unseen
from sessiond.limits import Limits
from sessiond.ready import ready

_SORTS = {"updatedAt": "updated", "createdAt": "created", "name": "name_key", "messageCount": "count"}
_COLUMNS = ("updated", "created", "name_key", "count")
"""In the order of `keys_of`."""
_NEW = 1 << 62
"""Numbers from here on are for sessions that are not in the file yet: they come after all that are, in the order of feeding."""
_Moved: TypeAlias = list[tuple[int, int | str | None]]
_info = msgspec.json.Decoder(IndexedInfo)
_encode = msgspec.json.Encoder().encode
_BEFORE = (
    "SELECT no, min(epoch) AS epoch, updated, created, name_key, count FROM history WHERE epoch > :epoch GROUP BY no"
)
"""The keys at an epoch of the sessions that have changed since. (SQLite takes the other columns from the row of the min().)"""


class _Position(msgspec.Struct, array_like=True):
    epoch: cursors.Int64
    key: cursors.Int64 | str
    no: cursors.Int64
    moved: list[tuple[cursors.Int64, cursors.Int64 | str | None]] = []
    """Sessions (no) that the first page had elsewhere than the epoch: their keys on that page. None: not in the list."""


ready(_Position)


def list_sessions(
    db: sqlite3.Connection, query: ListQuery, limits: Limits, unseen: Mapping[str, Unseen] | None = None
) -> SessionPage:
    """One page. InvalidParams for an invalid limit, sort, filter or cursor. `unseen`: newer values than those in the file,
    by session; only for a first page.
    """
    limit = page_limit(query.limit, limits.default_list_page, limits.list_page)
    sort = DEFAULT_SORT if query.sort is None else query.sort
    if not isinstance(sort, str) or sort.removeprefix("-") not in _SORTS:
        raise InvalidParams(f"sort: expected one of {', '.join(_SORTS)}, with - in front for descending", field="sort")
    wanted = parse_filter(query.filter)
    digest = cursors.request_digest("list", sort, wanted)
    facts = dict(db.execute("SELECT key, value FROM meta"))
    if query.cursor is None:
        position = None
        rows, moved = _first(db, wanted, sort, limit + 1, unseen or {})
        epoch = facts["epoch"]
    else:
        position = cursors.decode(query.cursor, facts["instance"], digest, _Position)
        if not facts.get("history_from", 0) <= position.epoch <= facts["epoch"]:
            raise cursors.stale()
        rows = _later(db, wanted, sort, limit + 1, position)
        epoch, moved = position.epoch, position.moved
    cursor = None
    fit = min(_fitting(rows, limits.page_most), limit)
    if len(rows) > fit:
        rows = rows[:fit]
        cursor = cursors.encode(facts["instance"], digest, _Position(epoch, rows[-1][0], rows[-1][1], moved))
    return SessionPage(items=[_info.decode(raw) for _, _, raw in rows], next_cursor=cursor)


def _fitting(rows: list[Any], most: int) -> int:
    """Return how many rows a page may have by their bytes; at least one, so that paging always advances."""
    size = 0
    for count, (_, _, raw) in enumerate(rows):
        size += len(raw)
        if size > most and count:
            return count
    return len(rows)


def _first(
    db: sqlite3.Connection, wanted: CheckedFilter, sort: str, count: int, unseen: Mapping[str, Unseen]
) -> tuple[list[Any], _Moved]:
    """The rows, and the sessions whose place differs from that in the file."""
    conditions = Conditions()
    session_conditions(wanted, conditions)
    column, order = _column(sort)
    if unseen:
        conditions.add("s.id NOT IN (SELECT value FROM json_each(?))", _json(list(unseen)))
    sql = f"SELECT s.{column}, s.no, s.info FROM session s WHERE {conditions.sql()} ORDER BY s.{column} {order}, s.no {order} LIMIT {count}"  # noqa: S608
    rows = db.execute(sql, conditions.params).fetchall()
    if not unseen:
        return rows, []
    known = f"SELECT id, no, {column} FROM session WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
    nos = {session_id: (no, key) for session_id, no, key in db.execute(known, (_json(list(unseen)),))}
    moved: _Moved = []
    at = _COLUMNS.index(column)
    for session_id, (stamp, info) in unseen.items():
        no, before = nos.get(session_id, (_NEW + stamp, None))
        keys = None if info is None else keys_of(info)
        key = None if info is None or keys is None or not fits(wanted, info, keys) else keys[at]
        if key is not None:
            rows.append((key, no, info))
        if session_id in nos and key != before:
            moved.append((no, key))
    # While many sessions are made, most of them are on later pages.
    first = _in_order(rows, order)[:count]
    return [(key, no, info if isinstance(info, bytes) else _encode(info)) for key, no, info in first], moved


def _in_order(rows: list[Any], order: str) -> list[Any]:
    """By key, then by number. Codepoint order is SQLite's byte order of UTF-8."""
    return sorted(rows, key=lambda row: (row[0], row[1]), reverse=order == "DESC")


def _later(db: sqlite3.Connection, wanted: Any, sort: str, count: int, after: _Position) -> list[Any]:
    """Sessions that have not changed since the cursor's epoch, and those that have, at their old places; merged."""
    column, order = _column(sort)
    beyond = "<" if order == "DESC" else ">"
    rows: list[Any] = []
    for source, keys in (
        ("session s", "s"),
        (f"({_BEFORE}) h JOIN session s ON s.no = h.no", "h"),
    ):
        conditions = Conditions()
        session_conditions(wanted, conditions, keys=keys)
        conditions.params["epoch"] = after.epoch
        conditions.add(f"({keys}.{column}, s.no) {beyond} (?, ?)", after.key, after.no)
        if keys == "s":
            conditions.add("s.no NOT IN (SELECT no FROM history WHERE epoch > :epoch)")
        if after.moved:
            conditions.add("s.no NOT IN (SELECT value FROM json_each(?))", _json([no for no, _ in after.moved]))
        sql = (
            f"SELECT {keys}.{column}, s.no, s.info FROM {source} WHERE {conditions.sql()} "  # noqa: S608
            f"ORDER BY {keys}.{column} {order}, s.no {order} LIMIT {count}"
        )
        rows.extend(db.execute(sql, conditions.params))
    if after.moved:
        rows += _moved(db, wanted, order, after)
    return _in_order(rows, order)[:count]


def _moved(
    db: sqlite3.Connection, wanted: CheckedFilter, order: str, after: _Position
) -> Iterator[tuple[Any, int, bytes]]:
    """Sessions that the first page had elsewhere than its epoch, if they come after the cursor."""
    conditions = Conditions()
    session_conditions(msgspec.structs.replace(wanted, since=None, until=None, name=None), conditions)
    conditions.add("s.no IN (SELECT value FROM json_each(?))", _json([no for no, _ in after.moved]))
    keys = dict(after.moved)
    for no, info in db.execute(f"SELECT s.no, s.info FROM session s WHERE {conditions.sql()}", conditions.params):  # noqa: S608
        key: Any = keys[no]
        place: Any = (after.key, after.no)
        if (
            key is not None
            and type(key) is type(after.key)
            and ((key, no) < place if order == "DESC" else (key, no) > place)
        ):
            yield key, no, info


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _column(sort: str) -> tuple[str, str]:
    return _SORTS[sort.removeprefix("-")], "DESC" if sort.startswith("-") else "ASC"


def session_info(db: sqlite3.Connection, session_id: str) -> IndexedInfo | None:
    row = db.execute("SELECT info FROM session WHERE id = ? AND shelf != ?", (session_id, UNKNOWN)).fetchone()
    return None if row is None else _info.decode(row[0])


def fingerprints(db: sqlite3.Connection, store: str) -> dict[str, str]:
    """Id on the wire -> fingerprint, for the sessions of a store that are not in the trash; empty if unknown."""
    sql = "SELECT id, ifnull(fingerprint, '') FROM session WHERE store = ? AND shelf < ?"
    return dict(db.execute(sql, (store, DELETED)))


def sessions_beyond(db: sqlite3.Connection, stores: Sequence[str]) -> list[str]:
    """Ids on the wire of the sessions that are in none of these stores, those in the trash too."""
    return [
        row[0]
        for row in db.execute(
            "SELECT id FROM session WHERE store NOT IN (SELECT value FROM json_each(?))", (_json([*stores]),)
        )
    ]


def count_sessions(db: sqlite3.Connection, store: str) -> int:
    """Return how many sessions a store has, including archived ones but not those in the trash."""
    row: tuple[int] = db.execute(
        "SELECT count(*) FROM session WHERE store = ? AND shelf < ?", (store, DELETED)
    ).fetchone()
    return row[0]
