"""The list of sessions as windows have it: whole once, and then what came, changed and went."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from sessiond.agent_host.shapes import SessionSummary
from sessiond.agent_host.summaries import summary
from sessiond.errors import SessiondError
from sessiond.schema.sessions import ListChangedResult, ListResult

log = logging.getLogger(__name__)
_PAGE = 500
_PAUSE_S = 0.2
"""Between two looks at what changed: a busy daemon does not tell windows of each word."""
_LONGEST_PAUSE_S = 60.0


class Catalogue(Protocol):
    """The part of the service that the list needs."""

    async def page(self, cursor: str | None, limit: int) -> ListResult: ...

    async def changed(self, cursor: str | None) -> ListChangedResult:
        """`Listing.changed` is called once something comes after the result."""

    def removed(self, cursor: str) -> list[str] | None:
        """Sessions that are gone since; None: some may be missing."""


class Listing:
    """`tell`: called with a session's id and its row before and after, either of which may be missing. `wanted`: whether any
    window has the list.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        tell: Callable[[str, SessionSummary | None, SessionSummary | None], None],
        wanted: Callable[[], bool],
    ) -> None:
        self._wanted = wanted
        self._catalogue = catalogue
        self._tell = tell
        self._rows: dict[str, SessionSummary] = {}
        self._cursor: str | None = None
        self._first: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._dirty = False
        """Something came that was not looked at yet."""

    async def rows(self) -> Mapping[str, SessionSummary]:
        """By id. SessiondError."""
        if self._first is None or (self._first.done() and (self._first.cancelled() or self._first.exception())):
            self._first = asyncio.create_task(self._read(), name="agent host")
        await asyncio.shield(self._first)
        return self._rows

    def close(self) -> None:
        for task in (self._first, self._looking):
            if task is not None:
                task.cancel()

    async def _read(self) -> None:
        self._cursor = (await self._catalogue.changed(None)).cursor
        self._rows = await self._all()

    async def _all(self) -> dict[str, SessionSummary]:
        found: dict[str, SessionSummary] = {}
        cursor: str | None = None
        while True:
            page = await self._catalogue.page(cursor, _PAGE)
            found |= {info.session_id: summary(info) for info in page.sessions}
            cursor = page.next_cursor
            if cursor is None:
                return found

    def changed(self) -> None:
        """Something came."""
        self._dirty = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="agent host")

    async def _look(self) -> None:
        pause = _PAUSE_S
        while self._dirty:
            await asyncio.sleep(pause)
            self._dirty = False
            if not self._wanted():  # the next window reads it afresh
                self._first, self._rows = None, {}
                return
            try:
                await self.rows()
                while await self._compare():
                    pass
                pause = _PAUSE_S
            except Exception as error:  # whatever it is: the list must not end with it
                known = isinstance(error, SessiondError)
                log.warning("windows were not told what changed: %s", error, exc_info=None if known else error)
                self._dirty, pause = True, min(2 * pause + 1.0, _LONGEST_PAUSE_S)

    async def _compare(self) -> bool:
        """Tell windows what has changed, and return whether there is more."""
        cursor = self._cursor
        result = await self._catalogue.changed(cursor)
        gone = None if cursor is None else self._catalogue.removed(cursor)
        self._cursor = result.cursor
        if result.lost or gone is None:
            rows = await self._all()
            gone = [wire_id for wire_id in self._rows if wire_id not in rows]
        else:
            rows = {one.session.session_id: summary(one.session) for one in result.sessions}
        for wire_id in gone:
            if wire_id not in rows and (before := self._rows.pop(wire_id, None)) is not None:
                self._tell(wire_id, before, None)
        for wire_id, row in rows.items():
            before = self._rows.get(wire_id)
            self._rows[wire_id] = row
            if before != row:
                self._tell(wire_id, before, row)
        return result.has_more
