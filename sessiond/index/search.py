"""`session/search`, mode text. Runs on a reading thread.

The order of hits: names of sessions before everything else; within each kind the RANKED newest by relevance, the others by
age. The order of the ranked ones is kept in memory for the cursor; the others continue below the last one's id, and new
documents only get higher ids. So a cursor leaves nothing out and shows nothing twice, whatever is fed meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
import time
from array import array
from collections.abc import Sequence

import msgspec

from sessiond.index import cursors
from sessiond.index.filters import CheckedFilter, page_limit, parse_filter
from sessiond.index.hits import Snippet, hits_of
from sessiond.index.match import Matcher
from sessiond.index.plan import Plan, plans
from sessiond.index.query import Query, parse
from sessiond.index.ranking import BM25, relevance
from sessiond.index.values import Hit, SearchPage, SearchQuery
from sessiond.limits import Limits
from sessiond.ready import ready

RANKED = 1000
"""This many of the newest matching names, and of the newest other matches, are ordered by relevance."""

_RANKED_NAMES, _OTHER_NAMES, _RANKED_OTHERS, _OTHERS = range(4)
"""Segments of the result, in this order."""


_DOCS = "SELECT doc.id, doc.kind, doc.at, role.name, 0.0 FROM doc JOIN role ON role.no = doc.role WHERE doc.id IN (SELECT value FROM json_each(?))"


class _Position(msgspec.Struct, array_like=True):
    """The place where the next page begins.

    `at`: how many of a ranked segment are done, otherwise the id to continue below. `names`: how many of the `held` are
    names. `lows`: the lowest id of the ranked names and of the ranked others, 0 if there are no others.
    """

    segment: cursors.Int64
    at: cursors.Int64
    held: cursors.Int64
    names: cursors.Int64
    lows: tuple[cursors.Int64, cursors.Int64]
    total: cursors.Int64


ready(_Position)


def search_text(db: sqlite3.Connection, request: SearchQuery, limits: Limits, held: cursors.HitOrders) -> SearchPage:
    """One page. InvalidParams for an invalid limit, filter or cursor; the query itself is never an error."""
    limit = page_limit(request.limit, limits.default_list_page, limits.list_page)
    wanted = parse_filter(request.filter, search=True)
    query = parse(request.query)
    digest = cursors.request_digest("text", request.query, wanted)
    instance: str = db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()[0]
    asked = (
        plans(db, query, wanted)
        if query.groups or wanted.narrows or query.thinking or not query.tools
        else (None, None)
    )
    if request.cursor is None:
        position, ranked = _first(db, asked)
    else:
        position = cursors.decode(request.cursor, instance, digest, _Position)
        ranked = held.get(position.held) if position.held and position.segment < _OTHERS else array("q")
    shown, following = _page(db, asked, ranked, position, limit)
    cursor = None
    if following is not None:
        if ranked and not following.held:
            following.held = held.keep(ranked)
        cursor = cursors.encode(instance, digest, following)
    return SearchPage(hits=_hits(db, shown, wanted, query), total=position.total, next_cursor=cursor)


def most_relevant(db: sqlite3.Connection, asked: Sequence[Plan | None]) -> list[int]:
    """The ids of the RANKED newest names and of the RANKED newest others that match, each best first, names before others."""
    return list(_first(db, asked)[1][::2])


def _first(db: sqlite3.Connection, asked: Sequence[Plan | None]) -> tuple[_Position, array[int]]:
    """The position before the first hit, with the number of hits; and all ranked ones, as alternating id and score in
    millionths, names first.
    """
    ranked: array[int] = array("q")
    counts, lows, total = [], [], 0
    now_ms = int(time.time() * 1000)
    for plan in asked:
        found, number = _ranked(db, plan, now_ms) if plan is not None else ([], 0)
        counts.append(len(found))
        lows.append(min(doc for _, doc in found) if number > len(found) else 0)
        total += number
        for score, doc in found:
            ranked.extend((doc, int(score * 1e6)))
    return _Position(_RANKED_NAMES, 0, 0, counts[0], (lows[0], lows[1]), total), ranked


def _ranked(db: sqlite3.Connection, plan: Plan, now_ms: int) -> tuple[list[tuple[float, int]], int]:
    """(score, id) of the newest, best first, and the number of all matches."""
    if plan.stems:
        count, ids = _counted(db, plan)
        rows = db.execute(_DOCS, (json.dumps(ids),)).fetchall()
    else:
        source = f"{plan.source} CROSS JOIN doc ON doc.id = {plan.id}" if plan.lone else plan.source
        sql = f"SELECT doc.id, doc.kind, doc.at, role.name, {BM25 if plan.ranked else 0.0} FROM {source} CROSS JOIN role ON role.no = doc.role"  # noqa: S608
        rows = db.execute(f"{sql} WHERE {plan.where} ORDER BY {plan.order} DESC LIMIT {RANKED}", plan.params).fetchall()
        count = len(rows)
        if count == RANKED:
            count = db.execute(f"SELECT count(*) FROM {plan.source} WHERE {plan.where}", plan.params).fetchone()[0]  # noqa: S608
    found = [(relevance(kind, role, at, bm25, now_ms), doc) for doc, kind, at, role, bm25 in rows]
    found.sort(reverse=True)
    return found, count


def _page(
    db: sqlite3.Connection, asked: Sequence[Plan | None], ranked: array[int], position: _Position, limit: int
) -> tuple[list[tuple[int, float]], _Position | None]:
    """(id, score) of the next hits from `position` on, and where the page after them begins; None if this is the last one."""
    shown: list[tuple[int, float]] = []
    segment, at = position.segment, position.at
    while segment <= _OTHERS:
        room = limit + 1 - len(shown)
        if segment in (_RANKED_NAMES, _RANKED_OTHERS):
            start, stop = (0, position.names) if segment == _RANKED_NAMES else (position.names, len(ranked) // 2)
            first = start + at
            some = [(ranked[2 * i], ranked[2 * i + 1] / 1e6) for i in range(first, min(first + room, stop))]
            places = range(at + 1, at + 1 + len(some))
        else:
            plan = asked[segment // 2]
            some = [(doc, 0.0) for doc in _older(db, plan, at, room)] if at and plan is not None else []
            places = [doc for doc, _ in some]  # type: ignore[assignment]
        if len(some) == room:  # one more than fits: it begins the next page
            at = places[-2] if room > 1 else at
            following = msgspec.structs.replace(position, segment=segment, at=at)
            return shown + some[:-1], following
        shown += some
        segment += 1
        at = position.lows[segment // 2] if segment in (_OTHER_NAMES, _OTHERS) else 0
    return shown, None


def _older(db: sqlite3.Connection, plan: Plan, than: int, count: int) -> list[int]:
    return _newest(db, msgspec.structs.replace(plan, where=f"{plan.where} AND {plan.below(than)}"), count)


def _counted(db: sqlite3.Connection, plan: Plan) -> tuple[int, list[int]]:
    """The number of matches, and the ids of the RANKED newest, newest first; in one pass, without an object for each id."""
    some = f"SELECT {plan.id} AS id FROM {plan.source} WHERE {plan.where} ORDER BY {plan.order} DESC"  # noqa: S608
    count, ids = db.execute(f"SELECT count(*), group_concat(id) FROM ({some})", plan.params).fetchone()  # noqa: S608
    return count, [int(one) for one in ids.split(",", RANKED)[:RANKED]] if count else []


def _newest(db: sqlite3.Connection, plan: Plan, count: int) -> list[int]:
    """Ids, newest first."""
    sql = f"SELECT {plan.id} FROM {plan.source} WHERE {plan.where} ORDER BY {plan.order} DESC LIMIT {count}"  # noqa: S608
    return [doc for (doc,) in db.execute(sql, plan.params)]


def _hits(db: sqlite3.Connection, shown: list[tuple[int, float]], wanted: CheckedFilter, query: Query) -> list[Hit]:
    matcher = Matcher(query.texts())

    def show(_: int, texts: Sequence[tuple[str, str]]) -> Snippet:
        return matcher.snippet(text for kind, text in texts if query.searches(kind))

    return hits_of(db, shown, wanted.shelf, show)
