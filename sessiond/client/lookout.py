"""Finds which sessions changed, for a client that follows all of them: the daemon tells it in the order of arrival, and a session is
opened only once it changed.

No I/O. What happened between two looks is not missed: the session is opened since the seq that it had before. Where the
daemon cannot say what changed (it was started meanwhile), all sessions are listed and compared; an older daemon never can.

begin          a cursor, then all sessions are listed: the seqs from which to go on
every look     what changed after the cursor, and the next cursor
cursor lost    all sessions are listed and compared
list with gaps what it shows counts, and it is repeated with the next look
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from sessiond.client import requests
from sessiond.client.requests import Request
from sessiond.client.types import ChangedPage, ListPage, SessionInfo
from sessiond.errors import SessiondError

QUIET_S = 60.0
"""A session in which nothing happened for this long is closed again."""
LIST_LIMIT = 1000
Found: TypeAlias = Iterator[tuple[str, int, str | None]]
"""Sessions to open, each with the seq from which to go on and the `createdAt` of the session that had it, if it is known."""


class Lookout:
    """`due` says what to ask, `listed` takes the result and says which sessions to open."""

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self.next_look = 0.0
        self._arrived: str | None = None
        """The daemon's cursor."""
        self._tells = True
        """The daemon knows what changed; one that is older does not."""
        self._told = False
        """This look has asked for what changed."""
        self._listing = True
        """All sessions have to be listed."""
        self._page: str | None = None
        self._gaps = False
        """A page of this list lacked sessions, for the daemon's index is being built."""
        self._gaps_before = False
        """The list before this one had gaps."""
        self._first = True
        """No list has shown all sessions yet: one that is not known may be old."""
        self._known: dict[str, tuple[int, str | None]] = {}
        """Session -> the seq of the last change of it that the program got or did not want, and its `createdAt`."""
        self._late: set[str] = set()
        """Sessions whose seq was learned after the beginning: it may be greater than that of a change that is wanted."""
        self._active: dict[str, float] = {}
        """Session that is open -> when something happened last (monotonic)."""

    def due(self, now: float) -> Request[Any] | None:
        """Return what to ask next, for a ChangedPage or a ListPage; None if it is too early."""
        if now < self.next_look:
            return None
        if self._tells and not self._told:
            return requests.list_changed(self._arrived, LIST_LIMIT)
        return requests.list_(self._page, LIST_LIMIT, "-updatedAt", {})

    def refused(self, error: SessiondError) -> bool:
        """Return whether the daemon does not know the question, and another one has to do."""
        if self._told or not self._tells or error.kind != "methodNotFound":
            return False
        self._tells, self._listing = False, True
        return True

    def listed(self, page: ListPage | ChangedPage, now: float) -> Found:
        """Sessions that changed since they were last seen."""
        if isinstance(page, ChangedPage):
            yield from self._changed(page, now)
        else:
            yield from self._compared(page, now)
        if (self._told or not self._tells) and not (self._listing and not self._over(page)):
            self._told = False
            self.next_look = now + self._look_s

    def _over(self, page: ListPage | ChangedPage) -> bool:
        """Return whether this page was the last one of a list."""
        return isinstance(page, ListPage) and page.next_cursor is None

    def _changed(self, page: ChangedPage, now: float) -> Found:
        for one in page.sessions:
            info, known = one.session, self._known.get(one.session.session_id)
            if one.begun or known is None:
                yield from self._look_at(info, 0 if one.begun else one.since, None, now)
            else:
                since = min(known[0], one.since) if info.session_id in self._late else known[0]
                yield from self._look_at(info, since, known[1], now)
        self._listing = self._listing or page.lost
        self._arrived = page.cursor
        self._told = not page.has_more

    def _compared(self, page: ListPage, now: float) -> Found:
        for info in page.sessions:
            known = self._known.get(info.session_id)
            if known is not None:
                yield from self._look_at(info, *known, now)
            elif not self._first:
                yield from self._look_at(info, 0, None, now)
            elif info.session_id not in self._active:
                self._known[info.session_id] = (info.seq, info.created_at)
                if self._gaps_before:
                    self._late.add(info.session_id)
        self._gaps = self._gaps or page.incomplete
        self._page = page.next_cursor
        if self._page is None:
            self._listing = self._gaps or not self._tells
            self._first = self._first and self._gaps
            self._gaps_before, self._gaps = self._gaps, False

    def _look_at(self, info: SessionInfo, since: int, created_at: str | None, now: float) -> Found:
        if info.session_id in self._active:
            return
        if info.seq == since and created_at in (None, info.created_at):
            self._known[info.session_id] = (info.seq, info.created_at)
            return
        self._active[info.session_id] = now
        yield info.session_id, since, created_at

    def lost(self) -> None:
        """The connection ended, perhaps between two pages: a list begins again, for its cursor may be of another daemon."""
        self._page, self._gaps, self._told = None, False, False

    def heard(self, session_id: str, now: float) -> None:
        self._active[session_id] = now

    def quiet(self, now: float) -> list[str]:
        """Sessions to close."""
        return [session_id for session_id, at in self._active.items() if now - at > QUIET_S]

    def left(self, session_id: str, known: int, created_at: str | None) -> None:
        """It was closed; `known` is the seq of the last change of it that the program got."""
        self._active.pop(session_id, None)
        self._late.discard(session_id)
        self._known[session_id] = (known, created_at)

    def gone(self, session_id: str) -> None:
        """It was deleted. A later one with the same id is a different session."""
        self._active.pop(session_id, None)
        self._late.discard(session_id)
        self._known.pop(session_id, None)
