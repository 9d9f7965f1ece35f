"""`session/usage`: what requests to models used, by day, model, tool, project or session. Runs on a reading thread.

Several messages may report the same request: the parts of one answer, and the copy that a resumed or forked session begins with.
A message that names no request is a copy if it has the same place, time and counts as one of a session with the same origin.
A request counts once: by its largest report, and of equal ones by that of the oldest session. A copy may be as old as what it is
a copy of, but names it as its parent. So it does not matter which came first. A subagent's session counts as part of the session
that it works for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from operator import add
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from sessiond.errors import InvalidParams
from sessiond.index.filters import Conditions, page_limit, parse_filter, session_conditions
from sessiond.index.schema import ARCHIVED, LIVE
from sessiond.index.values import ModelUsage, TokenTotals, UsageQuery, UsageReport, UsageRow
from sessiond.model.values import epoch_ms, tool_of

_DEFAULT_ROWS, _MOST_ROWS = 1000, 10_000
_SLOT_MS = 900_000
"""A quarter of an hour: no time zone's days begin within one."""
_DEEPEST = 100
"""Subagents of subagents, forks of forks."""
_ORIGIN = (
    "copy AS MATERIALIZED (SELECT no, id, json_extract(CAST(info AS TEXT), '$.parent.sessionId') AS parent FROM session"  # noqa: S608
    " WHERE parent IS NOT NULL),"
    " above(no, id, depth) AS (SELECT no, parent, 1 FROM copy"
    f" UNION ALL SELECT a.no, c.parent, a.depth + 1 FROM above a JOIN copy c ON c.id = a.id WHERE a.depth < {_DEEPEST}),"
    " origin AS MATERIALIZED (SELECT no, id, max(depth) FROM above GROUP BY no)"
)
"""The sessions that began as a copy of another one or work for it, with the id of the first one, which may be deleted."""
_COUNTS = ("requests", "input", "cache_read", "cache_write", "output", "reasoning", "cost", "priced")


class _Metadata(msgspec.Struct, frozen=True):
    source: Any = None
    sidechain: Any = None


class _Parent(msgspec.Struct, rename="camel"):
    session_id: str


class _About(msgspec.Struct, rename="camel"):
    """The part of a session's info that decides where its requests belong."""

    session_id: str
    name: str | None = None
    cwd: str | None = None
    parent: _Parent | None = None
    metadata: _Metadata = _Metadata()

    @property
    def tool(self) -> str:
        return tool_of({"source": self.metadata.source})


class _Used(msgspec.Struct, frozen=True):
    """The usage of the requests of one session, model and quarter of an hour; `counts` in the order of `_COUNTS`."""

    session: int
    slot: int
    model: str | None
    counts: tuple[float, ...]


_about = msgspec.json.Decoder(_About).decode


def usage_report(db: sqlite3.Connection, query: UsageQuery) -> UsageReport:
    """InvalidParams, naming the field."""
    zone, zone_name = _zone(query.time_zone)
    limit = page_limit(query.limit, _DEFAULT_ROWS, _MOST_ROWS)
    sessions = _Sessions(db)
    used = _used(db, query, by_time=query.by in ("day", "month"))
    if query.tool is not None:
        used = [one for one in used if sessions.about(one.session).tool == query.tool]
    groups: dict[str | None, _Group] = {}
    whole = _Group()
    key_of = _key(query.by, zone, sessions)
    for one in used:
        group = groups.setdefault(key_of(one), _Group())
        owner = sessions.owner(one.session)
        group.add(one, owner)
        whole.add(one, owner)
    names = {key: sessions.name(key) for key in groups} if query.by == "session" else {}
    rows = [group.row(key, names.get(key)) for key, group in groups.items()]
    if query.by in ("day", "month"):
        rows.sort(key=lambda row: row.key or "")
        shown = rows[-limit:]
    else:
        rows.sort(key=lambda row: (-_tokens(row.total), row.key or ""))
        shown = rows[:limit]
    return UsageReport(
        rows=shown,
        omitted=len(rows) - len(shown),
        sessions=len(whole.sessions),
        total=whole.total(),
        models=whole.models(),
        time_zone=zone_name,
    )


def _used(db: sqlite3.Connection, query: UsageQuery, *, by_time: bool) -> list[_Used]:
    wanted = parse_filter(query.filter)
    conditions = Conditions()
    # Archived sessions were paid for, too.
    both = (query.filter or {}).get("archived") is None and not wanted.deleted
    session_conditions(wanted, conditions, shelves=(LIVE, ARCHIVED) if both else None)
    # Only of the report that counts: its copy in another session may have the time of the copying.
    period = Conditions("t")
    period.add("nth = 1")
    for name, sign in (("since", ">="), ("until", "<")):
        if (given := getattr(query, name)) is not None:
            period.add(f"at {sign} ?", _moment(given, name))
    slot = f"u.at / {_SLOT_MS}" if by_time else "0"
    rows = db.execute(
        f"WITH RECURSIVE {_ORIGIN}"  # noqa: S608
        " SELECT session, slot, model, count(*), sum(input), sum(cache_read), sum(cache_write), sum(output),"
        " sum(reasoning), total(cost), count(cost) FROM ("
        f"SELECT u.*, {slot} AS slot, row_number() OVER (PARTITION BY"
        " coalesce(u.request, char(10) || printf('%s %d %d %d %d', coalesce(o.id, s.id), d.seq, u.at, u.input, u.output))"
        " ORDER BY u.input + u.cache_read + u.cache_write + u.output DESC, s.created, o.id IS NOT NULL, u.at, s.id, u.doc) AS nth"
        " FROM usage u JOIN session s ON s.no = u.session LEFT JOIN origin o ON o.no = s.no"
        f" LEFT JOIN doc d ON d.id = u.doc AND u.request IS NULL WHERE {conditions.sql()})"
        f" WHERE {period.sql()} GROUP BY session, slot, model",
        {**conditions.params, **period.params},
    )
    return [_Used(session, slot, model, tuple(counts)) for session, slot, model, *counts in rows]


class _Sessions:
    """The sessions, by their numbers and ids; each is looked up once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._by_number: dict[int, _About] = {}
        self._by_id: dict[str, _About | None] = {}

    def about(self, number: int) -> _About:
        found = self._by_number.get(number)
        if found is None:
            [info] = self._db.execute("SELECT info FROM session WHERE no = ?", (number,)).fetchone()
            found = self._by_number[number] = _about(info)
            self._by_id[found.session_id] = found
        return found

    def owner(self, number: int) -> str:
        """The id of the session that it counts as part of: its own, unless it is a subagent's."""
        one = self.about(number)
        for _ in range(_DEEPEST):
            parent = self._find(one.parent.session_id) if one.parent and one.metadata.sidechain is True else None
            if parent is None:
                break
            one = parent
        return one.session_id

    def folder(self, number: int) -> str | None:
        """The project: the folder of the session that it counts as part of."""
        owner = self._find(self.owner(number))
        return (owner.cwd if owner else None) or self.about(number).cwd

    def name(self, session_id: str | None) -> str | None:
        found = self._find(session_id or "")
        return found.name if found else None

    def _find(self, session_id: str) -> _About | None:
        if session_id not in self._by_id:
            row = self._db.execute("SELECT info FROM session WHERE id = ?", (session_id,)).fetchone()
            self._by_id[session_id] = _about(row[0]) if row and row[0] else None
        return self._by_id[session_id]


class _Group:
    """One row while it is being added up."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self._models: dict[str | None, list[float]] = {}

    def add(self, used: _Used, owner: str) -> None:
        self.sessions.add(owner)
        before = self._models.get(used.model)
        self._models[used.model] = list(used.counts) if before is None else list(map(add, before, used.counts))

    def total(self) -> TokenTotals:
        return TokenTotals(**_by_name(map(sum, zip(*self._models.values(), strict=True))))

    def models(self) -> list[ModelUsage]:
        found = [ModelUsage(model=model, **_by_name(counts)) for model, counts in self._models.items()]
        return sorted(found, key=lambda one: (-_tokens(one), one.model or ""))

    def row(self, key: str | None, name: str | None) -> UsageRow:
        return UsageRow(key=key, name=name, sessions=len(self.sessions), total=self.total(), models=self.models())


def _by_name(counts: Iterable[float]) -> dict[str, Any]:
    return dict(zip(_COUNTS, counts, strict=False))


def _key(by: str, zone: tzinfo | None, sessions: _Sessions) -> Callable[[_Used], str | None]:
    days: dict[int, str] = {}

    def day(used: _Used) -> str:
        if used.slot not in days:
            moment = datetime.fromtimestamp(used.slot * _SLOT_MS // 1000, UTC).astimezone(zone)
            days[used.slot] = moment.date().isoformat()
        return days[used.slot]

    keys: dict[str, Callable[[_Used], str | None]] = {
        "day": day,
        "month": lambda used: day(used)[:7],
        "model": lambda used: used.model,
        "tool": lambda used: sessions.about(used.session).tool,
        "project": lambda used: sessions.folder(used.session),
        "session": lambda used: sessions.owner(used.session),
    }
    if by not in keys:
        raise InvalidParams(f"by: unknown {by!r} (one of {', '.join(keys)})", field="by")
    return keys[by]


def _zone(name: str | None) -> tuple[tzinfo | None, str]:
    """The time zone and its name; None is the machine's own."""
    if name is None:
        return None, datetime.now().astimezone().tzname() or "UTC"
    try:
        return ZoneInfo(name), name
    except (KeyError, OSError, ValueError) as error:
        hint = "give a name such as Europe/Berlin or UTC, or leave it out for the daemon's own"
        raise InvalidParams(f"timeZone: unknown time zone {name!r}", hint=hint, field="timeZone") from error


def _moment(given: str, field: str) -> int:
    try:
        return epoch_ms(given)
    except (ValueError, OverflowError) as error:
        raise InvalidParams(
            f"{field}: expected an RFC 3339 timestamp such as 2026-01-11T14:30:22.000Z", field=field
        ) from error


def _tokens(total: TokenTotals) -> int:
    return total.input + total.cache_read + total.cache_write + total.output
