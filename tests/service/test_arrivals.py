"""Which sessions changed since a cursor, in the order of arrival."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.limits import Limits
from sessiond.service import arrivals as arrivals_module
from sessiond.service.arrivals import Arrivals
from sessiond.service.sessions import Service
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user

OLD = "2001-01-01T00:00:00.000Z"


def position(arrivals: Arrivals) -> int:
    found = arrivals.position(arrivals.now())
    assert found is not None
    return found[0]


async def changed(service: Service, cursor: str | None, limit: int | None = None) -> tuple[list[Any], str, bool]:
    result = await service.finder.changed(limit=limit, cursor=cursor)
    assert not result.lost
    told = [(one.session.session_id, one.session.seq, one.since, one.begun) for one in result.sessions]
    return told, result.cursor, result.has_more


def test_what_came_after_each_cursor() -> None:
    """The first change after it says from which seq to go on, and the last one where the session is in the order."""
    arrivals = Arrivals()
    arrivals.changed("a", 0, begun=True)
    arrivals.changed("b", 7)
    first = position(arrivals)
    arrivals.changed("a", 3)
    arrivals.changed("a", 4)
    second = position(arrivals)
    arrivals.changed("b", 8)
    arrivals.changed("a", 5)
    assert [(wire_id, one.since(first), one.begun > first) for wire_id, one in arrivals.after(first)] == [
        ("b", 8, False),
        ("a", 3, False),
    ]
    assert [(wire_id, one.since(second)) for wire_id, one in arrivals.after(second)] == [("b", 8), ("a", 5)]
    assert [(wire_id, one.since(0), one.begun > 0) for wire_id, one in arrivals.after(0)] == [
        ("b", 7, False),
        ("a", 0, True),
    ]


def test_a_session_that_is_made_again_has_begun_again() -> None:
    """With the same id it is another one."""
    arrivals = Arrivals()
    arrivals.changed("a", 4)
    cursor = position(arrivals)
    arrivals.gone("a")
    assert not arrivals.after(cursor)
    arrivals.changed("a", 0, begun=True)
    ((_, one),) = arrivals.after(cursor)
    assert one.begun > cursor and one.since(cursor) == 0


def test_marks_are_joined_and_never_too_late() -> None:
    """However many cursors there are, `since` is at most the seq before the first change after it."""
    arrivals = Arrivals()
    cursors = []
    for before in range(3 * arrivals_module._MARKS):
        cursors.append((position(arrivals), before))
        arrivals.changed("a", before)
    ((_, one),) = arrivals.after(0)
    assert all(one.since(cursor) <= before for cursor, before in cursors)
    assert one.since(cursors[-1][0]) == cursors[-1][1]
    assert len(one._marks) <= arrivals_module._MARKS


def test_a_cursor_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another daemon, one that is none, one of the future, and one before what was dropped."""
    monkeypatch.setattr(arrivals_module, "MOST", 2)
    arrivals = Arrivals()
    begin = arrivals.now()
    daemon = begin.partition(".")[0]
    for cursor in (
        Arrivals().now(),
        "",
        "x",
        f"{daemon}.0",
        f"{daemon}.0.-1",
        f"{daemon}.1.1",
        f"{daemon}.0.{'9' * 5000}",
    ):
        assert arrivals.position(cursor) is None
    for wire_id in "abc":
        arrivals.changed(wire_id, 0)
    assert arrivals.position(begin) is None
    assert arrivals.position(f"{daemon}.1.2") == (1, 2)
    assert [wire_id for wire_id, _ in arrivals.after(1)] == ["b", "c"]


async def test_changes_with_old_dates_are_told(service: Service, store: MemoryStore) -> None:
    """An append with any time, and a session that is made; page by page, each once, until something changes again."""
    peer = FakePeer()
    for session_id in ("a", "b"):
        await service.new(peer, session_id=session_id, messages=[user("x")])
    none, cursor, more = await changed(service, None)
    assert (none, more) == ([], False)
    await service.append(peer, "a", [user("y") | {"timestamp": OLD}])
    await service.new(peer, session_id="c", messages=[user("z") | {"timestamp": OLD}])
    await service.append(peer, "a", [user("y") | {"timestamp": OLD}])
    told, at, more = await changed(service, cursor, limit=1)
    assert (told, more) == ([("c", 1, 0, True)], True)
    told, at, more = await changed(service, at, limit=1)
    assert (told, more) == ([("a", 3, 1, False)], False)
    assert await changed(service, at) == ([], at, False)


async def test_a_session_that_came_as_a_whole_has_begun(service: Service) -> None:
    """A fork is new. One that was deleted and is back is the same as before."""
    peer = FakePeer()
    await service.new(peer, session_id="a", messages=[user("x")])
    _, cursor, _ = await changed(service, None)
    fork = await service.fork(peer, "a")
    await service.delete("a")
    await service.restore(peer, "a")
    told, _, _ = await changed(service, cursor)
    begun = {session_id: began for session_id, _, _, began in told}
    assert begun == {fork["sessionId"]: True, "a": False}


async def test_a_page_is_bounded_in_bytes(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one session is on it, and none is passed over."""
    peer = FakePeer()
    _, cursor, _ = await changed(service, None)
    for session_id in ("a", "b"):
        await service.new(peer, session_id=session_id, messages=[user("x")])
    monkeypatch.setattr(Limits, "page_most", 1)
    told, cursor, more = await changed(service, cursor)
    assert ([one[0] for one in told], more) == (["a"], True)
    told, cursor, more = await changed(service, cursor)
    assert ([one[0] for one in told], more) == (["b"], False)
