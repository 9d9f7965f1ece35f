"""What goes to the index when: long replies, sessions that vanish midway, checks that overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sessiond.model.message import Message, wire_from_client
from sessiond.model.session import Session
from sessiond.service import catalog as module
from sessiond.service.indexed import indexed
from sessiond.service.sessions import Service
from sessiond.store.port import Listed
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user

T = "2026-01-11T14:30:22.000Z"


def message(seq: int) -> Message:
    return Message.from_wire(wire_from_client(user(f"text {seq}"), message_id=f"m{seq}", seq=seq, now=T))


async def test_a_long_reply_is_not_indexed_anew_for_every_piece(
    service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it streams in, the index has it as of a moment ago; as soon as it is finished, or somebody searches, all of it."""
    monkeypatch.setattr(module, "_GROWING_CHARS_S", 1)
    catalog, known = service.catalog, service.index.messages
    await catalog.ready.wait()
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "one", "status": "streaming"}])
    catalog._feed_some()
    assert known["a"]["r"] == "one"
    await service.extend(peer, "a", "r", " two")
    await service.append(peer, "a", [user("meanwhile", id="u")])
    catalog._feed_some()
    assert known["a"] == {"r": "one", "u": "meanwhile"}
    await catalog.settled()
    assert known["a"]["r"] == "one two"
    await service.extend(peer, "a", "r", " three")
    await service.finish(peer, "a", "r")
    catalog._feed_some()
    assert known["a"]["r"] == "one two three"


@pytest.mark.parametrize("when", ["between", "after"])
async def test_a_session_that_vanishes_while_it_is_indexed(service: Service, store: MemoryStore, when: str) -> None:
    """A session that is deleted while its parts arrive remains deleted, whichever part came last."""
    session = Session("big", T)

    async def parts() -> AsyncIterator[list[Message]]:
        yield [message(1)]
        if when == "between":
            service.catalog.vanished("big")
        yield [message(2)]
        service.catalog.vanished("big")

    await service.catalog.fill(indexed(store, session, None), parts(), [])
    if when == "between":
        assert "big" not in service.index.messages
    assert "big" not in service.index.infos


async def test_while_it_is_indexed_its_file_is_not_looked_at(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event of its own file's making would have it read a second time."""

    async def never(local_id: str) -> None:
        raise AssertionError("it was looked at")

    async def parts() -> AsyncIterator[list[Message]]:
        yield [message(1)]
        await service.catalog.recheck(store, "big")

    monkeypatch.setattr(store, "look", never)
    await service.catalog.fill(indexed(store, Session("big", T), None), parts(), [])
    assert service.index.messages["big"] == {"m1": "text 1"}


async def test_checks_that_overlap_are_over_with_the_last(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists wait for both, and searches stay incomplete until then."""
    await service.catalog.ready.wait()
    gates = [asyncio.Event(), asyncio.Event()]
    waiting = iter(gates)

    async def scan() -> AsyncIterator[list[Listed]]:
        await next(waiting).wait()
        yield []

    monkeypatch.setattr(store, "scan", scan)
    for _ in gates:
        service.catalog.start([store])
    for n, gate in enumerate(gates):
        assert not service.catalog.ready.is_set()
        assert service.index.incomplete
        gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert service.catalog.ready.is_set() == (n == 1)
    assert not service.index.incomplete


async def test_what_the_scan_missed_is_forgotten_only_if_it_is_gone(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that came after the scan had passed is known to the index and in no list of files: it stays."""
    await service.new(peer, session_id="late", messages=[user("1")])
    await service.catalog.settled()
    service.index.infos["gone"] = service.index.infos["late"]

    async def scan() -> AsyncIterator[list[Listed]]:
        yield []

    async def fingerprints(name: str) -> dict[str, Any]:
        return dict.fromkeys(("late", "gone"), "x")

    monkeypatch.setattr(store, "scan", scan)
    monkeypatch.setattr(service.index, "fingerprints", fingerprints)
    assert await service.catalog.check(store) == []
    assert list(service.index.infos) == ["late"]


async def test_a_session_that_is_opened_while_it_is_indexed_is_not_let_go(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """A request between the last check and the release keeps it; otherwise it leaves the memory."""
    index = service.index
    for session_id in ("a", "b"):
        session = Session(session_id, T)
        session.add_message(message(1))
        store.sessions[session_id] = session
        opening = []

        def taken_in(*known: Any, session_id: str = session_id, opening: list[Any] = opening) -> None:
            FakeIndex.put_session(index, *known)
            if session_id == "a":
                opening.append(asyncio.create_task(service.open(peer, "a")))

        index.put_session = taken_in
        await service.catalog._reindex(store, Listed(session_id, "", ""))
        await asyncio.gather(*opening)
    kept = service.open_sessions.peek("a")
    assert kept is not None and peer in kept.audience
    assert service.open_sessions.peek("b") is None
    await service.append(None, "a", [user("more")])
    assert len(peer.take("session/changed")) == 1


async def test_a_session_that_is_saved_and_let_go_while_others_are_read(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its store was compared only the journal had it; when its turn comes, its file looks as the index knows it."""
    await service.catalog.ready.wait()
    await service.new(None, session_id="a")
    await service.append(None, "a", [user("before", id="m1")])
    await service.catalog.searchable()
    service.index.messages.pop("a")  # as if the daemon had been killed before the index was written
    gate, reading = asyncio.Event(), service.catalog.reindex

    async def reindex(*given: Any) -> Any:
        await gate.wait()
        return await reading(*given)

    async def scan() -> AsyncIterator[list[Listed]]:
        yield []

    monkeypatch.setattr(store, "scan", scan)
    monkeypatch.setattr(service.catalog, "reindex", reindex)
    service.catalog.start([store])
    await service.catalog.listed.wait()
    await service.append(None, "a", [user("after", id="m2")])
    await service.save("a")
    one = service.open_sessions.of(store, "a")
    while one.busy:
        await asyncio.sleep(0)
    service.open_sessions.let_go(one)
    assert service.open_sessions.peek("a") is None
    gate.set()
    await service.catalog.ready.wait()
    await service.catalog.searchable()
    assert service.index.messages["a"] == {"m1": "before", "m2": "after"}


async def test_after_the_end_nothing_is_begun(service: Service, store: MemoryStore) -> None:
    """A refill that comes late does not start a check that nobody would end."""
    await service.catalog.ready.wait()
    await service.catalog.close()
    service.catalog.start([store])
    assert not service.index.incomplete


async def test_a_list_waits_for_an_index_that_is_lost_meanwhile(
    service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of an index that turns out to be lost is not used: the list comes from the next one."""
    await service.new(peer, session_id="a", messages=[user("1")])
    await service.catalog.ready.wait()
    asked = service.index.list
    calls = []

    async def lost(query: Any) -> Any:
        page = await asked(query)
        calls.append(query)
        if len(calls) == 1:
            service.catalog.listed.clear()
            asyncio.get_running_loop().call_soon(service.catalog.listed.set)
            page.items.clear()
        return page

    monkeypatch.setattr(service.index, "list", lost)
    assert [one["sessionId"] for one in (await service.list())["sessions"]] == ["a"]
    assert len(calls) == 2


async def test_stores_are_checked_though_the_index_cannot_say_what_is_beyond_them(
    service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists and searches would wait for the first check for as long as the daemon lives."""
    catalog = service.catalog
    await catalog.ready.wait()
    await service.new(peer, session_id="a", messages=[user("words")])
    await service.save()

    async def fail(_: object) -> list[str]:
        raise RuntimeError("the index is busy")

    monkeypatch.setattr(catalog.index, "sessions_beyond", fail)
    catalog.start(list(service.stores.values()))
    async with asyncio.timeout(20):
        await catalog.listed.wait()
        await catalog.ready.wait()
    assert not catalog.index.incomplete
