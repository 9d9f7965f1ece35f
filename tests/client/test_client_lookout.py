"""Which sessions a client that follows all of them opens, and since when. No daemon."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.client import lookout as lookout_module
from sessiond.client.lookout import Lookout
from sessiond.client.types import ChangedPage, ChangedSession, ListPage, SessionInfo
from sessiond.errors import SessiondError

EARLIER, LATER = "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"


def info(session_id: str, seq: int, created_at: str = EARLIER) -> SessionInfo:
    return SessionInfo(session_id=session_id, seq=seq, created_at=created_at)


def one(session_id: str, seq: int, since: int, *, begun: bool = False) -> ChangedSession:
    return ChangedSession(session=info(session_id, seq), since=since, begun=begun)


class Look:
    """One look after the other, each answered with the pages in turn."""

    def __init__(self) -> None:
        self.lookout = Lookout(1.0)
        self.now = 0.0

    def __call__(self, *pages: ChangedPage | ListPage) -> list[tuple[str, int]]:
        """What has to be opened. Every page is asked for, and nothing else."""
        self.now += 1.0
        found: list[tuple[str, int]] = []
        for page in pages:
            asked: Any = self.lookout.due(self.now)
            assert asked is not None
            assert asked.method == ("session/list" if isinstance(page, ListPage) else "session/listChanged")
            found += [(session_id, since) for session_id, since, _ in self.lookout.listed(page, self.now)]
        assert self.lookout.due(self.now) is None
        return found


@pytest.fixture
def look() -> Look:
    return Look()


def told(*sessions: ChangedSession, **members: bool) -> ChangedPage:
    return ChangedPage(sessions=list(sessions), cursor="c", **members)


def test_what_changed_is_opened_from_where_it_was(look: Look) -> None:
    """Old, new and made again under an id that was known; what has not changed is left alone."""
    assert not look(told(), ListPage(sessions=[info("a", 3), info("b", 4)]))
    assert look(told(one("a", 5, 4), one("b", 4, 2), one("n", 2, 0, begun=True))) == [("a", 3), ("n", 0)]
    assert look(told(one("b", 9, 0, begun=True))) == [("b", 0)]
    assert look(told(one("c", 9, 0), has_more=True), told(one("d", 9, 8))) == [("c", 0), ("d", 8)]


def test_sessions_that_a_list_lacked_are_not_new(look: Look) -> None:
    """While the index is built each look repeats the list, and what changed is known from the daemon."""
    assert not look(told(), ListPage(sessions=[info("a", 3)], incomplete=True))
    assert not look(told(), ListPage(sessions=[info("a", 3), info("b", 40)], incomplete=True))
    assert look(told(one("c", 7, 6)), ListPage(sessions=[info("b", 40), info("c", 7), info("d", 8)])) == [("c", 6)]
    assert look(told(one("d", 9, 8), one("b", 41, 39))) == [("d", 8), ("b", 39)]


def test_all_are_compared_where_the_daemon_does_not_know(look: Look) -> None:
    """It was started again: what has another seq or another beginning is opened, also on the last page; once."""
    look(told(), ListPage(sessions=[info("a", 3), info("b", 4), info("c", 5)]))
    pages = (
        ListPage(sessions=[info("a", 3), info("b", 4, LATER)], next_cursor="p"),
        ListPage(sessions=[info("c", 6), info("n", 2)]),
    )
    assert look(told(lost=True), *pages) == [("b", 4), ("c", 5), ("n", 0)]
    assert not look(told())


def test_a_list_begins_again_with_the_connection(look: Look) -> None:
    """Its cursor may be of a daemon that has ended."""
    lookout = look.lookout
    assert not list(lookout.listed(told(), 1.0))
    assert not list(lookout.listed(ListPage(sessions=[info("a", 3)], next_cursor="p"), 1.0))
    lookout.lost()
    assert not list(lookout.listed(told(), 2.0))
    asked = lookout.due(2.0)
    assert asked is not None and asked.method == "session/list" and "cursor" not in asked.params
    lookout.lost()
    assert not look(told(), ListPage(sessions=[info("a", 3), info("b", 4)]))
    assert look(told(one("b", 5, 4))) == [("b", 4)]


def test_an_older_daemon_is_asked_for_lists(look: Look) -> None:
    """Each look compares all sessions."""
    assert look.lookout.due(1.0) is not None
    assert not look.lookout.refused(SessiondError("busy"))
    unknown = SessiondError("no such method")
    vars(unknown)["kind"] = "methodNotFound"
    assert look.lookout.refused(unknown)
    assert not look(ListPage(sessions=[info("a", 3)]))
    assert look(ListPage(sessions=[info("a", 3)], next_cursor="p"), ListPage(sessions=[info("b", 4)])) == [("b", 0)]
    assert not look.lookout.refused(unknown)


def test_what_was_closed_goes_on_where_it_was(look: Look) -> None:
    """After a quiet time, and nothing of a deleted session is remembered."""
    look(told(), ListPage(sessions=[info("a", 3), info("b", 3)]))
    assert look(told(one("a", 4, 3), one("b", 4, 3))) == [("a", 3), ("b", 3)]
    assert sorted(look.lookout.quiet(look.now + lookout_module.QUIET_S + 1)) == ["a", "b"]
    look.lookout.left("a", 6, EARLIER)
    look.lookout.gone("b")
    assert look(told(one("a", 7, 3), one("b", 2, 0, begun=True))) == [("a", 6), ("b", 0)]
