"""`session/search`, mode regex: Python's `re` over every text, in a process of its own.

A thread inside a catastrophic match can be stopped by nothing and holds the interpreter lock; a process can be killed,
and is, when its time is over or the request is cancelled. Names come first, then the newest documents. Which documents
match is found once, for the first page; the others are shown from the ids that are held for the cursor.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import msgspec

from sessiond import pipes
from sessiond.errors import Cancelled, InvalidParams
from sessiond.index import cursors
from sessiond.index.chunks import library
from sessiond.index.filters import Filter, page_limit, parse_filter
from sessiond.index.hits import hits_of
from sessiond.index.plan import filter_plans
from sessiond.index.readers import Readers, Ticket
from sessiond.index.schema import Unusable
from sessiond.index.values import Hit, SearchPage, SearchQuery
from sessiond.limits import Limits

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "regex_worker.py")
_PROCESSES = 2
"""At once; others wait, on their own time."""


class _Position(msgspec.Struct, array_like=True):
    held: cursors.Int64
    at: cursors.Int64


class _Answer(msgspec.Struct):
    """What the worker writes."""

    ids: list[int] = []
    shown: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    error: str | None = None
    position: int = 0
    damage: str | None = None


class RegexSearch:
    def __init__(self, path: str, limits: Limits, readers: Readers, held: cursors.Held) -> None:
        self._path = path
        self._limits = limits
        self._readers = readers
        self._held = held
        self._pool = ThreadPoolExecutor(_PROCESSES, thread_name_prefix="index-regex")

    async def search(self, request: SearchQuery) -> SearchPage:
        """One page. InvalidParams for a bad pattern (`data["position"]`, code points) and all that `search_text`
        refuses; Cancelled after `regex_s`; Unusable and sqlite3.Error where the index is damaged.
        """
        ticket = Ticket(self._limits.regex_s)
        limit = page_limit(request.limit, self._limits.default_list_page, self._limits.list_page)
        wanted = parse_filter(request.filter, search=True)
        digest = cursors.request_digest("regex", request.query, wanted)
        instance, queries = await self._readers.run(lambda db: _prepare(db, wanted), ticket)
        if request.cursor is None:
            answer = await self._ask(request.query, queries, limit, ticket)
            position, ids = _Position(0, 0), array("q", answer.ids)
        else:
            position = cursors.decode(request.cursor, instance, digest, _Position)
            ids = self._held.get(position.held)
            if not 0 <= position.at < len(ids):
                raise cursors.stale()
            page = list(ids[position.at : position.at + limit])
            answer = await self._ask(request.query, [_these(page)], limit, ticket)
        page = list(ids[position.at : position.at + limit])
        hits = await self._readers.run(lambda db: _hits(db, page, wanted, answer), ticket)
        end = position.at + len(page)
        cursor = None
        if end < len(ids):
            cursor = cursors.encode(instance, digest, _Position(position.held or self._held.keep(ids), end))
        return SearchPage(hits=hits, total=len(ids), next_cursor=cursor)

    def close(self) -> None:
        """Blocks till the processes have ended: give up the requests first, or wait their time."""
        self._pool.shutdown(wait=True)

    async def _ask(self, pattern: str, queries: list[Any], limit: int, ticket: Ticket) -> _Answer:
        job = _Job(self._path, pattern, queries, limit, ticket)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, job.run)
        except asyncio.CancelledError:
            job.kill()
            raise
        if answer.error is not None:
            raise InvalidParams(
                f"query: {answer.error} at position {answer.position}", field="query", position=answer.position
            )
        if answer.damage is not None:
            raise Unusable(answer.damage)
        return answer


class _Job:
    """One process; `run` on a thread of its own, `kill` from any."""

    def __init__(self, path: str, pattern: str, queries: list[Any], limit: int, ticket: Ticket) -> None:
        self._request = {"path": quote(path), "pattern": pattern, "queries": queries, "limit": limit}
        self._ticket = ticket
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> _Answer:
        with self._lock:
            if self._ticket.over():
                raise self._ticket.ended()
            self._process = pipes.start(_WORKER, bare=True)
        with self._process as process:  # closes its pipes and waits for it
            # Here, on a thread: the library is imported to find it.
            request = json.dumps(self._request | {"library": library(), "seconds": self._ticket.left_s}).encode()
            try:
                out, _ = process.communicate(request, timeout=max(0.0, self._ticket.left_s))
            except subprocess.TimeoutExpired:
                process.kill()
                raise self._ticket.ended() from None
        if process.returncode != 0:
            raise self._ticket.ended() if self._ticket.over() else Cancelled("it took more memory than there is for it")
        return msgspec.json.decode(out, type=_Answer)

    def kill(self) -> None:
        self._ticket.give_up()
        with self._lock:
            if self._process is not None:
                self._process.kill()


def _prepare(db: sqlite3.Connection, wanted: Filter) -> tuple[str, list[Any]]:
    """The index's instance, and what the worker has to look through."""
    instance: str = db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()[0]
    columns = "doc.id, doc.chunk, doc.start, doc.size"
    queries = [
        [f"SELECT {columns} FROM {plan.source} WHERE {plan.where}", f"ORDER BY {plan.order} DESC", plan.params]  # noqa: S608
        for plan in filter_plans(db, wanted)
        if plan is not None
    ]
    return instance, queries


def _these(ids: list[int]) -> list[Any]:
    sql = "SELECT id, chunk, start, size FROM doc WHERE id IN (SELECT value FROM json_each(:ids))"
    return [sql, "", {"ids": json.dumps(ids)}]


def _hits(db: sqlite3.Connection, page: list[int], wanted: Filter, answer: _Answer) -> list[Hit]:
    return hits_of(
        db,
        [(doc, 0.0) for doc in page],
        wanted.shelf,
        lambda doc, texts: answer.shown.get(doc) or ("", []),
    )
