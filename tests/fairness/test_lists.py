"""A list does not wait for writes into the index: a first page takes unwritten changes from memory."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.index import index as index_module
from sessiond.index.feed_queue import FeedStep
from sessiond.index.index import Index
from tests.index.feeding import at, info, listed, message, opened

SORTS = ["updatedAt", "-updatedAt", "createdAt", "-createdAt", "name", "-name", "messageCount", "-messageCount"]
FILTERS: list[dict[str, Any]] = [
    {}, {"archived": True}, {"deleted": True}, {"deleted": True, "archived": True}, {"store": "lisp"}, {"model": "m"}, {"cwd": "/x/"},
    {"tags": ["t"]}, {"tags": ["t", "u"]}, {"since": at(20)}, {"until": at(20)}, {"name": "B"},
]  # fmt: skip
COUNT = 30


@contextmanager
def busy(index: Index) -> Iterator[None]:
    """The writing thread is at something long meanwhile: nothing is committed."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        assert go_on.wait(60)

    index._writer.submit(FeedStep("busy", 1, wait))
    assert begun.wait(60)
    try:
        yield
    finally:
        go_on.set()


def some(chance: random.Random, session_id: str) -> Any:
    return info(
        session_id,
        minutes=chance.randrange(40),
        created_at=at(-chance.randrange(40)),
        name=chance.choice(["abc", "Bcd", "xyz", None]),
        message_count=chance.randrange(5),
        archived=chance.random() < 0.2,
        deleted=chance.random() < 0.2,
        store=chance.choice(["default", "lisp"]),
        model=chance.choice(["m", None]),
        cwd=chance.choice(["/x", "/y"]),
        tags=chance.choice([[], ["t"], ["t", "u"]]),
    )


def change_some(index: Index, chance: random.Random) -> str:
    """Of those that are there, of new ones, and of new ones that change again; some go, and one of them comes back: its id."""
    for number in chance.sample(range(COUNT), 12):
        index.put_info(some(chance, f"s{number}"))
    for number in range(5):
        index.put_info(some(chance, f"n{number}"))
    index.put_info(some(chance, "n0"))
    for number in chance.sample(range(COUNT), 3):
        index.remove(f"s{number}")
    index.put_info(some(chance, f"s{number}"))
    return f"s{number}"


@asynccontextmanager
async def filled(folder: Path, chance: random.Random) -> AsyncIterator[Index]:
    async with opened(folder) as index:
        for number in range(COUNT):
            index.put_info(some(chance, f"s{number}"))
        await index.settled()
        yield index


async def test_nothing_is_written_before_a_list_returns(tmp_path: Path) -> None:
    """A session that is made, changed or removed while the writing thread is at something else shows so at once."""
    async with opened(tmp_path) as index:
        index.put_info(info("a", minutes=1))
        index.put_info(info("b", minutes=2))
        await index.settled()
        with busy(index):
            index.put_info(info("a", minutes=3, name="changed"))
            index.remove("b")
            index.put_info(info("c", minutes=4))
            assert index.listable()
            page = await listed(index)
            assert [(one.session_id, one.name) for one in page.items] == [("c", None), ("a", "changed")]
        await index.settled()
        assert index._writer.unseen == 0
        assert (await listed(index)).items == page.items


async def test_a_list_does_not_wait_for_a_message_of_another_session(tmp_path: Path) -> None:
    """Not for a large one that is being indexed; what is put after that is still shown."""
    async with opened(tmp_path) as index:
        with busy(index):
            index.put_info(info("large", minutes=1))
            index.add_messages("large", [message(1, "word " * 100_000)])
            index.put_info(info("small", minutes=2))
            assert index.listable()
            assert [one.session_id for one in (await listed(index)).items] == ["small", "large"]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
async def test_what_is_not_written_is_listed_as_if_it_were(tmp_path: Path, wanted: dict[str, Any]) -> None:
    """In every order, with every filter: the same sessions in the same order. (Those of equal keys are in the order in which
    they came into the file; that of new ones is only known when they are there.)
    """
    chance = random.Random(str(wanted))
    async with filled(tmp_path, chance) as index:
        with busy(index):
            returned = change_some(index, chance)
            before = {sort: (await listed(index, sort=sort, filter=wanted)).items for sort in SORTS}
        await index.settled()
        for sort in SORTS:
            after = (await listed(index, sort=sort, filter=wanted)).items
            assert sorted(before[sort], key=lambda one: one.session_id) == sorted(after, key=lambda one: one.session_id)
            assert old(before[sort], returned) == old(after, returned)


def old(items: list[Any], returned: str) -> list[Any]:
    return [one for one in items if one.session_id[0] == "s" and one.session_id != returned]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("seed", range(4))
async def test_pages_after_such_a_first_one_go_on_where_it_ended(tmp_path: Path, sort: str, seed: int) -> None:
    """Each session of the first page's moment is listed exactly once, where it stood then."""
    chance = random.Random(f"{sort} {seed}")
    async with filled(tmp_path, chance) as index:
        with busy(index):
            for number in chance.sample(range(COUNT), 12):
                index.put_info(some(chance, f"s{number}"))
            expected = [one.session_id for one in (await listed(index, sort=sort, limit=1000)).items]
            page = await listed(index, sort=sort, limit=3)
        seen = [one.session_id for one in page.items]
        while page.next_cursor is not None:
            for session_id in chance.sample(expected, 4):
                shown = msgspec.structs.replace(some(chance, session_id), archived=False, deleted=False)
                index.put_info(shown)
            await index.settled()
            page = await listed(index, sort=sort, limit=3, cursor=page.next_cursor)
            seen += [one.session_id for one in page.items]
        assert seen == expected


async def test_very_much_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list copies no more than some sessions out of memory; beyond that it asks the file, once all is there."""
    monkeypatch.setattr(index_module, "_MOST_UNSEEN", 5)
    async with opened(tmp_path) as index:
        with busy(index):
            for number in range(200):
                index.put_info(info(f"s{number}", minutes=number))
            assert not index.listable()
        await index.settled()
        assert len((await listed(index, limit=1000)).items) == 200
