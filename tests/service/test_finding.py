"""service/find.py and what the service refuses: what a list or a search may ask for, and the words of each error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import InvalidParams, TooLarge, Unavailable
from sessiond.fs import RealFileSystem
from sessiond.index.values import ListQuery, SessionPage
from sessiond.limits import Limits
from sessiond.service import find
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import House


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sort": "size"}, "sort: expected one of"),
        ({"limit": 0}, "limit: expected 1 or more, not 0"),
        ({"filter": {"colour": "red"}}, "filter.colour: unknown; expected one of"),
        ({"filter": {"tags": "a"}}, "filter.tags: expected list"),
        ({"filter": {"tags": [1]}}, "filter.tags: expected a list of strings"),
        ({"filter": {"archived": "yes"}}, "filter.archived: expected bool"),
        ({"filter": {"since": "yesterday"}}, "filter.since: expected an RFC 3339"),
        ({"filter": {"until": "2026-13-01"}}, "filter.until: expected an RFC 3339"),
        ({"filter": {"deleted": True}, "cursor": "page-2"}, "cursor: invalid for this list"),
        ({"filter": {"deleted": True}, "cursor": "trash--1"}, "cursor: invalid for this list"),
        ({"filter": {"deleted": True}, "cursor": "trash-" + "9" * 5000}, "cursor: invalid for this list"),
    ],
)
async def test_what_a_list_may_not_ask(service: Service, asked: dict[str, Any], words: str) -> None:
    """Each error names its field."""
    with pytest.raises(InvalidParams, match=words.replace(".", r"\.")) as raised:
        await service.list(**asked)
    assert raised.value.data["field"] == words.partition(":")[0]


async def test_the_trash_is_listed_by_pages_sorted_and_filtered(service: Service, peer: FakePeer) -> None:
    """Each page continues where the last one ended, and every filter takes out what it should."""
    for number, name in enumerate(("Apple", "pear", "Plum")):
        session_id = f"s{number}"
        await service.new(peer, session_id=session_id, name=name, model=f"m{number}", tags=["fruit", name])
        await service.append(peer, session_id, [user(f"{name} {n}") for n in range(number + 1)])
        await service.delete(session_id)

    async def found(sort: str | None = None, limit: int = 10, cursor: str | None = None, **wanted: Any) -> list[str]:
        page = await service.list(limit=limit, cursor=cursor, sort=sort, filter={"deleted": True, **wanted})
        names = [str(one["name"]) for one in page["sessions"]]
        if page["nextCursor"] is not None:
            names += await found(sort, limit, page["nextCursor"], **wanted)
        return names

    assert await found("name") == ["Apple", "Plum", "pear"]
    assert await found("-messageCount", limit=1) == ["Plum", "pear", "Apple"]
    assert await found("messageCount", limit=2) == ["Apple", "pear", "Plum"]
    assert await found("name", name="PL") == ["Apple", "Plum"]
    assert await found(tags=["fruit", "pear"]) == ["pear"]
    assert await found(model="m2") == ["Plum"]
    assert await found(store="elsewhere") == []
    assert await found(archived=True) == []
    assert await found(until="2000-01-01T00:00:00Z") == []
    assert len(await found(since="2000-01-01T00:00:00Z", model=None)) == 3


async def test_a_query_longer_than_the_limit(service: Service) -> None:
    """It is refused before anything is looked for."""
    with pytest.raises(InvalidParams, match="query: longer than"):
        await service.search(None, query="x" * (Limits().query_bytes + 1))


async def test_numbers_and_words_that_make_no_sense(service: Service, peer: FakePeer) -> None:
    """Refused by name, and nothing is changed."""
    await service.new(peer, session_id="a", name="N")
    for wrong, words in (
        (service.finish(peer, "a", "m", status="gone"), "status: expected one of"),
        (service.fork(peer, "a", at_seq=-1), "atSeq: expected 0 or more, not -1"),
        (service.note_append(peer, "a", "  ", "text"), "heading: expected a text that is not empty"),
        (service.export("a", "docx", None), "format: expected one of"),
        (service.import_(None, "relative"), "path: expected an absolute path"),
        (service.import_(None, "/no/such/place"), "path: /no/such/place does not exist"),
        (service.import_(None, "/", since="lately"), "since: expected an RFC 3339"),
        (service.import_(None, "/", store="nowhere"), "store: there is no store 'nowhere'"),
        (service.extend(peer, "a", "nobody", "text"), "messageId: the session has no message 'nobody'"),
    ):
        with pytest.raises(InvalidParams, match=words):
            await wrong
    with pytest.raises(Unavailable, match="cannot mount folders"):
        await service.adopt("/")
    assert (await service.read("a"))["messages"] == []


async def test_a_message_that_could_not_be_read_again(clock: ManualClock, tmp_path: Path, peer: FakePeer) -> None:
    """It is refused by its id, and those next to it in the request are not kept either; requests that came with it are."""
    store = (await House(RealFileSystem(), str(tmp_path)).open()).store
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits(settle_s=0.0))
    await service.new(peer, session_id="a", name="N")
    large = user("x" * service.limits.message_bytes, id="large")
    requests = [[user("before")], [user("small"), large], [user("after")]]
    before, refused, after = await asyncio.gather(
        *(service.append(peer, "a", one) for one in requests), return_exceptions=True
    )
    assert isinstance(refused, TooLarge) and "'large' is too large to read back" in refused.message
    assert [before["seq"], after["seq"]] == [1, 2]
    assert [one["content"] for one in (await service.read("a"))["messages"]] == ["before", "after"]
    await service.close()


async def test_a_list_waits_for_an_index_that_was_lost(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks again as long as the answer says nothing, and gives up with an error at last, never with an empty list."""
    await service.new(None, session_id="s")
    index: Any = service.catalog.index
    real, asked = index.list, []

    async def lost(query: ListQuery) -> SessionPage:
        asked.append(query)
        return SessionPage(items=[], lost=True) if len(asked) < 3 else await real(query)

    monkeypatch.setattr(index, "list", lost)
    assert [one["sessionId"] for one in (await service.list())["sessions"]] == ["s"]
    assert len(asked) == 3
    asked.clear()
    monkeypatch.setattr(find, "_LOST_PATIENCE_S", -1.0)
    with pytest.raises(Unavailable, match="can be neither read nor rebuilt now"):
        await service.list()
