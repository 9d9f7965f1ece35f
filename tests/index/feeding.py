"""An index for a test, and short helpers to feed it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sessiond.index.index import Index
from sessiond.index.values import Hit, IndexedInfo, ListQuery, SearchPage, SearchQuery, SessionPage
from sessiond.limits import DEFAULT, Limits
from sessiond.model.message import Message, Note
from sessiond.model.values import timestamp

T0 = 1_768_000_000_000
"""2026-01-09T23:06:40Z"""


def at(minutes: float) -> str:
    return timestamp(T0 + int(minutes * 60_000))


def info(session_id: str, minutes: float = 0, **fields: Any) -> IndexedInfo:
    times = {"created_at": at(0), "updated_at": at(minutes)}
    return IndexedInfo(session_id=session_id, **(times | fields))


def message(seq: int, content: Any, role: str = "user", minutes: float = 0, **rest: Any) -> Message:
    return Message(id=f"m-{seq}", seq=seq, role=role, content=content, timestamp=at(minutes), rest=rest)


def note(seq: int, heading: str, content: str) -> Note:
    return Note(thread=None, tick=None, id=f"n-{seq}", seq=seq, heading=heading, content=content, timestamp=at(0))


@asynccontextmanager
async def opened(folder: Path, limits: Limits = DEFAULT, **options: Any) -> AsyncIterator[Index]:
    index = Index(str(folder / "index.db"), limits, **options)
    await index.open()
    try:
        yield index
    finally:
        await index.close()


async def search(index: Index, query: str, **fields: Any) -> SearchPage:
    return await index.search(SearchQuery(query=query, **fields))


async def all_hits(index: Index, query: str, limit: int = 50, **fields: Any) -> list[Hit]:
    """All pages of a search."""
    hits: list[Hit] = []
    cursor = None
    while True:
        page = await search(index, query, limit=limit, cursor=cursor, **fields)
        hits += page.hits
        cursor = page.next_cursor
        if cursor is None:
            return hits


async def listed(index: Index, **fields: Any) -> SessionPage:
    return await index.list(ListQuery(**fields))


def key(hit: Hit) -> tuple[str, int | None]:
    return hit.session_id, hit.seq
