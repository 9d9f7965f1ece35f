"""Which sessions changed, for a client that follows all of them: lists are compared, and a session is opened only once it
changed.

No I/O. What happened between two looks is not missed: the session is opened since the seq that the last list showed. State
alone does not move a session in the list, so changes of state are seen only in sessions that are already open."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.client import requests
from sessiond.client.requests import Request
from sessiond.client.types import ListPage

QUIET_S = 60.0
"""A session in which nothing happened for this long is closed again."""
LIST_LIMIT = 1000


class Lookout:
    """`due` says what to ask, `listed` takes the result and says which sessions to open, and since which seq."""

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self.next_look = 0.0
        self._cursor: str | None = None
        self._seqs: dict[str, int] = {}
        self._first = True
        self._newest = ""
        """`updatedAt` of the newest session that the last look showed."""
        self._looking_newest = ""
        self._active: dict[str, float] = {}
        """Session that is open -> when something happened last (monotonic)."""

    def due(self, now: float) -> Request[ListPage] | None:
        """The next page to ask for; None if it is too early."""
        if now < self.next_look:
            return None
        return requests.list_(self._cursor, LIST_LIMIT, "-updatedAt", {})

    def listed(self, page: ListPage, now: float) -> Iterator[tuple[str, int]]:
        """Sessions that changed since they were last seen, each with the seq from which to go on."""
        older = False
        for info in page.sessions:
            self._looking_newest = max(self._looking_newest, info.updated_at)
            older = older or info.updated_at < self._newest
            if info.session_id in self._active:
                continue
            known = self._seqs.get(info.session_id, 0)
            if self._first:
                self._seqs[info.session_id] = info.seq
            elif info.seq != known:
                self._active[info.session_id] = now
                yield info.session_id, known
        self._cursor = page.next_cursor
        if self._cursor is None or (older and not self._first):
            self._cursor = None
            self._first = False
            self._newest = self._looking_newest
            self.next_look = now + self._look_s

    def heard(self, session_id: str, now: float) -> None:
        self._active[session_id] = now

    def quiet(self, now: float) -> list[str]:
        """Sessions to close."""
        return [session_id for session_id, at in self._active.items() if now - at > QUIET_S]

    def left(self, session_id: str, known: int) -> None:
        """It was closed; `known` is the seq of the last change of it that the program got."""
        self._active.pop(session_id, None)
        self._seqs[session_id] = known

    def gone(self, session_id: str) -> None:
        """It was deleted. A later one with the same id is a different session."""
        self._active.pop(session_id, None)
        self._seqs.pop(session_id, None)
