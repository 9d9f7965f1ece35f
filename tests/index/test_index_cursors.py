"""Pages: nothing that was there at the first page is left out or shown twice, whatever happens meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sessiond.errors import InvalidParams
from sessiond.index import sessions
from sessiond.index.index import Index
from sessiond.index.search import RANKED
from sessiond.limits import Limits
from tests.index.feeding import all_hits, info, key, listed, message, opened, search

SORTS = ["updatedAt", "-updatedAt", "createdAt", "-createdAt", "name", "-name", "messageCount", "-messageCount"]


def rename_some(index: Index, chance: random.Random, count: int) -> None:
    """What a busy day does to a list: sessions change all their sort keys, new ones come, one moves often."""
    for _ in range(5):
        number = chance.randrange(count)
        index.put_info(
            info(
                f"s{number}",
                minutes=chance.randrange(500),
                name=chance.choice("abcxyz"),
                message_count=chance.randrange(99),
                created_at="2026",
            )
        )
    index.put_info(info("s0", minutes=chance.randrange(10**6), name=str(chance.random())))
    new = f"n{chance.random()}"
    index.put_info(info(new, minutes=chance.randrange(500), name=chance.choice("abcxyz")))


@pytest.mark.parametrize("sort", SORTS)
async def test_list_while_everything_moves(tmp_path: Path, sort: str) -> None:
    """In every order, each session of the first page's moment is listed exactly once, where it stood then."""
    chance = random.Random(sort)
    async with opened(tmp_path) as index:
        for number in range(40):
            index.put_info(
                info(
                    f"s{number}",
                    minutes=chance.randrange(100),
                    name=chance.choice("abc"),
                    message_count=chance.randrange(9),
                )
            )
        await index.settled()
        expected = [item.session_id for item in (await listed(index, sort=sort, limit=1000)).items]
        seen: list[str] = []
        cursor = None
        while True:
            page = await listed(index, sort=sort, limit=7, cursor=cursor)
            seen += [item.session_id for item in page.items if item.session_id[0] == "s"]
            cursor = page.next_cursor
            if cursor is None:
                break
            rename_some(index, chance, 40)
            await index.settled()
        assert seen == expected


async def test_list_with_filter_while_sessions_leave_it(tmp_path: Path) -> None:
    """A session that an update takes out of since/until or name is still listed by a cursor from before; a deleted one is not."""
    async with opened(tmp_path) as index:
        for number in range(6):
            index.put_info(info(f"s{number}", minutes=number, name="common"))
        await index.settled()
        wanted = {"name": "comm", "until": "2026-02-01T00:00:00Z"}
        first = await listed(index, limit=2, filter=wanted)
        index.put_info(info("s1", minutes=10**6, name="renamed"))
        index.put_info(info("s2", minutes=2, name="common", deleted=True))
        await index.settled()
        second = await listed(index, limit=10, filter=wanted, cursor=first.next_cursor)
        assert [item.session_id for item in first.items + second.items] == ["s5", "s4", "s3", "s1", "s0"]
        assert second.next_cursor is None


async def test_list_cursor_lives_as_long_as_the_file(tmp_path: Path) -> None:
    """A list's cursor continues after a restart, and sees what moved before and after it."""
    async with opened(tmp_path) as index:
        for number in range(6):
            index.put_info(info(f"s{number}", minutes=number))
        await index.settled()
        first = await listed(index, limit=3)
        index.put_info(info("s2", minutes=100))
    async with opened(tmp_path) as index:
        index.put_info(info("s1", minutes=200))
        await index.settled()
        second = await listed(index, cursor=first.next_cursor)
        assert [item.session_id for item in first.items + second.items] == ["s5", "s4", "s3", "s2", "s1", "s0"]


@pytest.mark.parametrize("limit", [1, 7, 333, 1000])
async def test_search_while_messages_arrive(tmp_path: Path, limit: int) -> None:
    """More hits than are ranked, in pages of any size, while new ones come and old ones grow: each old one exactly once, `total` as it was."""
    count = RANKED + 60 if limit > 1 else 30
    async with opened(tmp_path) as index:
        index.put_info(info("s", name="word"))
        index.put_info(info("t", name="word too"))
        index.add_messages("s", [message(seq, f"word {seq}") for seq in range(1, count + 1)])
        await index.settled()
        seen: list[tuple[str, int | None]] = []
        cursor = None
        fresh = count
        while True:
            page = await search(index, "word", limit=limit, cursor=cursor)
            assert page.total == count + 2
            seen += [key(hit) for hit in page.hits]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.hits) == limit
            fresh += 1
            index.add_messages("s", [message(fresh, "word word word new"), message(3, f"word grown {fresh}")])
            await index.settled()
        expected = {("s", seq) for seq in range(1, count + 1)} | {("s", None), ("t", None)}
        assert len(seen) == len(set(seen))
        assert set(seen) == expected
        assert set(seen[:2]) == {("s", None), ("t", None)}


async def test_search_pages_are_the_whole(tmp_path: Path) -> None:
    """Pages put together are what one page gives, in the same order with the same scores."""
    async with opened(tmp_path) as index:
        for number in range(8):
            index.put_info(info(f"s{number}", name="word" if number % 3 else None))
            index.add_messages(
                f"s{number}", [message(seq, "word " * seq, minutes=-number * 10_000) for seq in range(1, 6)]
            )
        await index.settled()
        whole = [(key(hit), round(hit.score, 3)) for hit in (await search(index, "word", limit=1000)).hits]
        for limit in (1, 2, 3, 5, 44, 45):
            assert [(key(hit), round(hit.score, 3)) for hit in await all_hits(index, "word", limit=limit)] == whole


async def test_deleted_meanwhile_is_not_shown(tmp_path: Path) -> None:
    """What was truncated or archived after the first page is not shown by a later one."""
    async with opened(tmp_path) as index:
        for session_id in "ab":
            index.put_info(info(session_id))
            index.add_messages(session_id, [message(seq, "word") for seq in (1, 2, 3)])
        await index.settled()
        first = await search(index, "word", limit=1)
        index.drop_after("a", 1)
        index.put_info(info("b", archived=True))
        await index.settled()
        second = await search(index, "word", cursor=first.next_cursor)
        assert {key(hit) for hit in second.hits} <= {("a", 1)}


async def test_cursors_of_other_requests_are_refused(tmp_path: Path) -> None:
    """A cursor continues with its own request only: another query, filter, sort, mode or index is invalidParams, not a strange page."""
    async with opened(tmp_path) as index:
        for number in range(5):
            index.put_info(info(f"s{number}", name="word"))
        await index.settled()
        found = (await search(index, "word", limit=1)).next_cursor
        pattern = (await search(index, "word", mode="regex", limit=1)).next_cursor
        of_list = (await listed(index, limit=1)).next_cursor
        assert found
        assert pattern
        assert of_list
        for wrong in (
            search(index, "word x", cursor=found),
            search(index, "word", cursor=found, filter={"role": "user"}),
            search(index, "word", cursor=found, mode="regex"),
            search(index, "word", cursor=pattern),
            search(index, "word", cursor=of_list),
            listed(index, cursor=found),
            listed(index, cursor=of_list, sort="name"),
            listed(index, cursor=of_list, filter={"store": "x"}),
            listed(index, cursor=of_list[:-2]),
            listed(index, cursor=""),
            listed(index, cursor="é"),
            listed(index, cursor=5),
        ):
            with pytest.raises(InvalidParams) as caught:
                await wrong
            assert caught.value.data["field"] == "cursor"
    (tmp_path / "other").mkdir()
    async with opened(tmp_path / "other") as index:
        with pytest.raises(InvalidParams):
            await listed(index, cursor=of_list)


async def test_held_orders_are_bounded(tmp_path: Path) -> None:
    """Cursors beyond what is held in memory are stale, the newest are not."""
    async with opened(tmp_path, Limits(held_hits_bytes=1000)) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(seq, "word") for seq in range(1, 30)])
        await index.settled()
        pages = [await search(index, "word", limit=1) for _ in range(5)]
        assert len((await search(index, "word", cursor=pages[-1].next_cursor)).hits) == 28
        with pytest.raises(InvalidParams, match="no longer valid"):
            await search(index, "word", cursor=pages[0].next_cursor)


async def test_a_page_that_comes_too_late_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves since the first page are remembered only for a while: a list that could be wrong must be started again."""
    monkeypatch.setattr(sessions, "HISTORY_ROWS", 20)
    monkeypatch.setattr(sessions, "_CACHED", 5)
    async with opened(tmp_path) as index:
        for number in range(10):
            index.put_info(info(f"s{number}", minutes=number))
        await index.settled()
        cursor = (await listed(index, limit=3)).next_cursor
        assert len((await listed(index, limit=3, cursor=cursor)).items) == 3
        for minutes in range(1000, 1050):
            index.put_info(info(f"s{minutes % 10}", minutes=minutes))
            await index.settled()
        with pytest.raises(InvalidParams) as refused:
            await listed(index, limit=3, cursor=cursor)
        assert refused.value.data["field"] == "cursor"
        assert [one.session_id for one in (await listed(index, limit=2)).items] == ["s9", "s8"]


async def test_what_is_unknown_is_cut_without_a_word(tmp_path: Path) -> None:
    """Cutting a session that the index never heard of makes none."""
    async with opened(tmp_path) as index:
        index.drop_after("nobody", 0)
        index.remove("nobody")
        await index.settled()
        assert (await listed(index)).items == []


@pytest.mark.parametrize("query", [None, 5, ["x"]])
async def test_a_query_is_a_text(tmp_path: Path, query: object) -> None:
    async with opened(tmp_path) as index:
        with pytest.raises(InvalidParams, match="query: expected a string"):
            await search(index, query)  # type: ignore[arg-type]


async def test_a_cursor_of_an_earlier_life_is_refused(tmp_path: Path) -> None:
    """Not continued with the hits of whatever was searched first since."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(seq, f"{'apple' if seq % 2 else 'banana'} {seq}") for seq in range(1, 30)])
        await index.settled()
        cursor = (await search(index, "apple", limit=3)).next_cursor
    async with opened(tmp_path) as index:
        assert (await search(index, "banana", limit=3)).next_cursor
        with pytest.raises(InvalidParams, match="no longer valid"):
            await search(index, "apple", cursor=cursor, limit=3)
