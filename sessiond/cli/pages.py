"""Results that come in pages, and messages that are shown as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, field

from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.requests import Answer, Request
from sessiond.client.types import FileWarning, Hit, HitPage, ListPage, Note, SessionInfo, Value
from sessiond.ready import ready

PAGE = 1000


class QuotedMessage(Value, frozen=True, kw_only=True):
    """The part of a message that is needed to quote it. A file may have anything in it, so nothing here is of a certain type."""

    id: Any = None
    role: Any = None
    content: Any = ""
    metadata: Any = None

    @property
    def injected(self) -> bool:
        """True if a tool put it there."""
        return isinstance(self.metadata, dict) and self.metadata.get("injected") is True


class SaidPage(Value, frozen=True, kw_only=True):
    """A page of `session/read`."""

    messages: list[QuotedMessage] = field(default_factory=list)


class ShownChange(Value, frozen=True, kw_only=True):
    """A change of any kind, with its messages as the daemon sent them."""

    kind: str = ""
    seq: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    message_id: str | None = None
    text: str = ""
    status: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    note: Note | None = None


class OpenedSession(Value, frozen=True, kw_only=True):
    """The result of `session/open`. `changes` is None if they are no longer known, or were not asked for."""

    session: SessionInfo
    messages: list[dict[str, Any]] = field(default_factory=list)
    has_more: bool = False
    warnings: list[FileWarning] = field(default_factory=list)
    changes: list[Raw] | None = None


class ShownPage(Value, frozen=True, kw_only=True):
    """A page of `session/read`, with its messages as the daemon sent them."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    has_more: bool = False
    seq: int = 0
    """Of the session."""


ready(SaidPage, ShownChange, OpenedSession, ShownPage)


def read(session_id: str, since: int, limit: int) -> Request[SaidPage]:
    """Messages with a seq greater than `since`."""
    return Request("session/read", {"sessionId": session_id, "since": since, "limit": limit}, SaidPage)


def read_shown(session_id: str, since: int, limit: int) -> Request[ShownPage]:
    """Request messages with a seq greater than `since`, as the daemon sent them."""
    return Request("session/read", {"sessionId": session_id, "since": since, "limit": limit}, ShownPage)


class ShownPages:
    """Pages of `session/read` as one, oldest first."""

    def __init__(self, pages: list[Answer[ShownPage]]) -> None:
        self._last = pages[-1]
        self.messages = [message for page in pages for message in page.value.messages]
        self.has_more = self._last.value.has_more

    @property
    def plain(self) -> dict[str, Any]:
        """In the shape of the last page, with all messages."""
        return {**self._last.plain, "messages": self.messages}


def from_on(
    ask: Callable[[Request[ShownPage]], Answer[ShownPage]], session_id: str, since: int, limit: int
) -> ShownPages:
    """Return up to `limit` messages with a seq greater than `since`, from as many pages as needed."""
    pages: list[Answer[ShownPage]] = []
    count = 0
    while not pages or (pages[-1].value.has_more and pages[-1].value.messages and count < limit):
        since = pages[-1].value.messages[-1]["seq"] if pages else since
        pages.append(ask(read_shown(session_id, since, min(PAGE, limit - count))))
        count += len(pages[-1].value.messages)
    return ShownPages(pages)


def with_earlier(
    ask: Callable[[Request[ShownPage]], Answer[ShownPage]], opened: OpenedSession, last: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest `last` messages, also those that did not fit into what was opened, and whether there are older ones."""
    pages, count, more = [opened.messages], len(opened.messages), opened.has_more
    before = opened.session.seq + 1
    while more and count < last:
        before = pages[-1][0]["seq"] if pages[-1] else before
        params = {"sessionId": opened.session.session_id, "before": before, "limit": min(PAGE, last - count)}
        page = ask(Request("session/read", params, ShownPage)).value
        pages.append(page.messages)
        count += len(page.messages)
        more = page.has_more and bool(page.messages)
    return [message for page in reversed(pages) for message in page], more


def open_(session_id: str, **which: int) -> Request[OpenedSession]:
    """`which`: `last` or `since`."""
    return Request("session/open", {"sessionId": session_id, **which}, OpenedSession)


class ListedPages:
    """Pages of `session/list` as one."""

    def __init__(self, pages: list[Answer[ListPage]]) -> None:
        values = [page.value for page in pages]
        self._pages = pages
        self.sessions = [info for page in values for info in page.sessions]
        self.next_cursor = values[-1].next_cursor
        self.incomplete = any(page.incomplete for page in values)

    @property
    def plain(self) -> dict[str, object]:
        """In the shape of one page, with every session as the daemon sent it."""
        sessions = [info for page in self._pages for info in page.plain["sessions"]]
        incomplete = {"incomplete": True} if self.incomplete else {}
        return {"sessions": sessions, "nextCursor": self.next_cursor, **incomplete}


def sessions(
    client: Sessiond, limit: int | None, sort: str | None, wanted: Mapping[str, object], *, whole: bool = False
) -> ListedPages:
    """Up to `limit` sessions (None: all), from as many pages as needed.

    `whole`: wait until the index knows all sessions again.
    """
    pages: list[Answer[ListPage]] = []
    cursor: str | None = None
    count = 0
    while not pages or (cursor is not None and (limit is None or count < limit)):
        page_size = PAGE if limit is None else limit - count
        answer = client.answer(requests.list_(cursor, page_size, sort, wanted))
        page = answer.value
        if page.incomplete and whole:  # start over: sessions that appear now may belong on any page
            pages, cursor, count = [], None, 0
            continue
        pages.append(answer)
        cursor = page.next_cursor
        count += len(page.sessions)
    return ListedPages(pages)


class FoundPages:
    """Pages of `session/search` as one."""

    def __init__(self, pages: list[Answer[HitPage]]) -> None:
        values = [page.value for page in pages]
        self._pages = pages
        self.hits: list[Hit] = [hit for page in values for hit in page.hits]
        self.total = values[-1].total
        self.next_cursor = values[-1].next_cursor
        self.incomplete = values[-1].incomplete
        self.unfetched = values[-1].unfetched

    @property
    def plain(self) -> dict[str, object]:
        """In the shape of the last page, with every hit as the daemon sent it."""
        plain = [page.plain for page in self._pages]
        return {**plain[-1], "hits": [hit for page in plain for hit in page["hits"]]}


def hits(client: Sessiond, limit: int | None, query: str, mode: str | None, wanted: Mapping[str, object]) -> FoundPages:
    """Up to `limit` hits (None: all), from as many pages as needed."""
    pages: list[Answer[HitPage]] = []
    cursor: str | None = None
    count = 0
    while not pages or (cursor is not None and (limit is None or count < limit)):
        page_size = PAGE if limit is None else min(PAGE, limit - count)
        answer = client.answer(requests.search(query, cursor, page_size, mode, wanted))
        pages.append(answer)
        cursor = answer.value.next_cursor
        count += len(answer.value.hits)
    return FoundPages(pages)
