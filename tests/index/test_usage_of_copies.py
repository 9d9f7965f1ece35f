"""Requests that several sessions report."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

from sessiond.index.index import Index
from sessiond.index.values import IndexedInfo, UsageQuery
from sessiond.model.message import Message
from tests.index.feeding import at, info, message, opened


def used(seq: int, request: str | None, minutes: float) -> Message:
    return message(seq, "x", "assistant", minutes, metadata={"tokens": {"input": 10, "request": request}})


async def counted(index: Index, **asked: str) -> dict[str | None, int]:
    """Of each session, the requests that count as its own."""
    await index.settled()
    report = await index.usage(UsageQuery(by="session", **asked))
    return {row.key: row.total.requests for row in report.rows}


async def test_the_order_of_arrival_does_not_matter(tmp_path: Path) -> None:
    """Three sessions of one age, which begin with the same request: it belongs to the one that is not a copy."""
    parent = {"sessionId": "z", "seq": None}
    sessions: list[tuple[IndexedInfo, list[Message]]] = [
        (info("z", parent=None), [used(1, "r", 1)]),
        (info("a", parent=parent), [used(1, "r", 1), used(2, "s", 1)]),
        (info("b", parent=parent), [used(1, "r", 1), used(2, "s", 1)]),
    ]
    for nth, order in enumerate(permutations(sessions)):
        folder = tmp_path / str(nth)
        folder.mkdir()
        async with opened(folder) as index:
            for about, messages in order:
                index.put_session(about, messages, [])
            assert await counted(index) == {"z": 1, "a": 1}, [about.session_id for about, _ in order]


async def test_a_copy_does_not_count_in_the_time_of_copying(tmp_path: Path) -> None:
    """The period is asked of the report that counts. So periods that follow one another add up."""
    async with opened(tmp_path) as index:
        index.put_session(info("first"), [used(1, "r", 1)], [])
        later = {"created_at": at(100), "updated_at": at(120)}
        index.put_session(info("fork", **later), [used(1, "r", 100), used(2, "s", 110)], [])
        assert await counted(index, since=at(50)) == {"fork": 1}
        assert await counted(index, until=at(50)) == {"first": 1}
        assert await counted(index) == {"first": 1, "fork": 1}


async def test_a_fork_is_known_by_its_origin(tmp_path: Path) -> None:
    """Messages need not say which request they are of. A fork of a fork, whose original was deleted, has the same ones."""
    whole = [used(1, None, 1), used(3, None, 2)]
    parent, middle = {"sessionId": "first", "seq": 3}, {"sessionId": "second", "seq": 3}
    async with opened(tmp_path) as index:
        index.put_session(info("first", parent=None), whole, [])
        index.put_session(info("second", parent=parent), [*whole, used(5, None, 3)], [])
        index.put_session(info("third", parent=middle), [*whole, used(5, None, 3), used(7, None, 4)], [])
        index.put_session(info("other", parent=None), whole, [])
        assert await counted(index) == {"first": 2, "second": 1, "third": 1, "other": 2}
        index.remove("first")
        assert await counted(index) == {"second": 3, "third": 1, "other": 2}


async def test_what_works_for_a_session_is_no_copy_of_it(tmp_path: Path) -> None:
    """At the same place of each, but at another time, or with other counts."""
    parent = {"sessionId": "first", "seq": 3}
    larger = message(1, "x", "assistant", 1, metadata={"tokens": {"input": 11}})
    async with opened(tmp_path) as index:
        index.put_session(info("first", parent=None), [used(1, None, 1)], [])
        index.put_session(info("second", parent=parent), [used(1, None, 2)], [])
        index.put_session(info("third", parent=parent), [larger], [])
        assert await counted(index) == {"first": 1, "second": 1, "third": 1}


async def test_sessions_that_name_each_other_as_parents_end(tmp_path: Path) -> None:
    """Somebody may have written that."""
    async with opened(tmp_path) as index:
        for one, other in (("a", "b"), ("b", "a")):
            index.put_session(info(one, parent={"sessionId": other, "seq": 1}), [used(1, None, 1)], [])
        assert sum((await counted(index)).values()) in (1, 2)
