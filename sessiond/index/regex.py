"""`session/search`, mode regex: Python's `re` over every text, in separate processes.

A thread inside a catastrophic match cannot be stopped and holds the interpreter lock; a process can be killed, and is, when
its time is over or the request is cancelled. A large index is divided among several. Names come first, then the newest
documents. The matching documents are found once, for the first page; later pages use the ids that are kept for the cursor.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import msgspec

from sessiond.errors import InvalidParams
from sessiond.index import cursors
from sessiond.index.filters import CheckedFilter, page_limit, parse_filter
from sessiond.index.hits import Snippet, hits_of
from sessiond.index.plan import filter_plans
from sessiond.index.readers import Readers, Ticket
from sessiond.index.regex_processes import KEPT_S, Processes, RegexJob, all_of
from sessiond.index.schema import IndexUnusable
from sessiond.index.values import Hit, SearchPage, SearchQuery
from sessiond.limits import Limits
from sessiond.ready import ready

_AT_ONCE = 2
"""How many requests run at once; others wait, which counts as part of their time."""
_SHARES = min(4, os.cpu_count() or 1)
"""Processes for one request."""
_SHARED_CHUNKS = 128
"""4 MB; one process searches a smaller index."""


class _Position(msgspec.Struct, array_like=True):
    held: cursors.Int64
    at: cursors.Int64


ready(_Position)


class RegexSearch:
    def __init__(self, path: str, limits: Limits, readers: Readers, held: cursors.HitOrders) -> None:
        self._path = path
        self._limits = limits
        self._readers = readers
        self._held = held
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="index-regex")
        self._processes = Processes()
        self._retirement: asyncio.TimerHandle | None = None
        """When processes that were idle for a while end."""

    async def search(self, request: SearchQuery) -> SearchPage:
        """One page. InvalidParams for a bad pattern (`data["position"]`, code points) and everything that `search_text`
        refuses; Cancelled after `regex_s`; IndexUnusable and sqlite3.Error if the index is damaged.
        """
        ticket = Ticket(self._limits.regex_s)
        limit = page_limit(request.limit, self._limits.default_list_page, self._limits.list_page)
        wanted = parse_filter(request.filter, search=True)
        digest = cursors.request_digest("regex", request.query, wanted)
        instance, last, queries = await self._readers.run(lambda db: _prepare(db, wanted), ticket)
        if request.cursor is None:
            shares = _SHARES if last >= _SHARED_CHUNKS else 1
            found, shown = await self._ask(request.query, queries, limit, shares, last, ticket)
            position, ids = _Position(0, 0), array("q", found)
        else:
            position = cursors.decode(request.cursor, instance, digest, _Position)
            ids = self._held.get(position.held)
            if not 0 <= position.at < len(ids):
                raise cursors.stale()
            page = list(ids[position.at : position.at + limit])
            _, shown = await self._ask(request.query, [_these(page)], limit, 1, last, ticket)
        page = list(ids[position.at : position.at + limit])
        hits = await self._readers.run(lambda db: _hits(db, page, wanted, shown), ticket)
        end = position.at + len(page)
        cursor = None
        if end < len(ids):
            cursor = cursors.encode(instance, digest, _Position(position.held or self._held.keep(ids), end))
        return SearchPage(hits=hits, total=len(ids), next_cursor=cursor)

    def close(self) -> None:
        """Blocks until the processes have ended: give up the requests first, or this waits for them."""
        self._pool.shutdown(wait=True)
        self._processes.end_idle()

    async def _ask(
        self, pattern: str, queries: list[object], limit: int, shares: int, last: int, ticket: Ticket
    ) -> tuple[list[int], dict[int, Snippet]]:
        """All ids, and the snippets of the first `limit`. `last`: the newest chunk of all."""
        path = quote(os.fsencode(self._path))
        request = {"path": path, "pattern": pattern, "queries": queries, "limit": limit, "last": last}
        job = RegexJob(self._processes, request, shares, ticket)
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._pool, job.run)
        except asyncio.CancelledError:
            job.kill()
            raise
        if self._retirement is not None:
            self._retirement.cancel()
        self._retirement = loop.call_later(KEPT_S, loop.run_in_executor, None, self._processes.end_idle)
        for answer in answers:
            if answer.error is not None:
                message = f"query: {answer.error} at position {answer.position}"
                raise InvalidParams(message, field="query", position=answer.position)
            if answer.damage is not None:
                raise IndexUnusable(answer.damage)
        return all_of(answers)


def _prepare(db: sqlite3.Connection, wanted: CheckedFilter) -> tuple[str, int, list[Any]]:
    """The index's instance, its newest chunk, and the queries to search through."""
    facts = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('instance', 'next_chunk')"))
    columns = "doc.id, doc.chunk, doc.start, doc.size"
    queries = [
        [f"SELECT {columns} FROM {plan.source} WHERE {plan.where}", f"ORDER BY {plan.order} DESC", plan.params]  # noqa: S608
        for plan in filter_plans(db, wanted)
        if plan is not None
    ]
    return facts["instance"], facts["next_chunk"] - 1, queries


def _these(ids: list[int]) -> list[object]:
    sql = "SELECT id, chunk, start, size FROM doc WHERE id IN (SELECT value FROM json_each(:ids))"
    return [sql, "", {"ids": json.dumps(ids)}]


def _hits(db: sqlite3.Connection, page: list[int], wanted: CheckedFilter, shown: dict[int, Snippet]) -> list[Hit]:
    return hits_of(
        db,
        [(doc, 0.0) for doc in page],
        wanted.shelf,
        lambda doc, texts: shown.get(doc) or ("", []),
    )
