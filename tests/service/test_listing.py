"""Lists while the index is not ready: they wait a moment for it, and say that something may be missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from sessiond.model.message import Message, wire_from_client
from sessiond.model.session import Session, SessionInfo
from sessiond.service import find
from sessiond.service.sessions import Service
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user

T = "2026-01-11T14:30:22.000Z"


def there(store: MemoryStore, *local_ids: str) -> None:
    """Files that the index has never seen."""
    for local_id in local_ids:
        session = store.sessions[local_id] = Session(local_id, T)
        session.add_message(Message.from_wire(wire_from_client(user("text"), message_id="m", seq=1, now=T)))


def shown(page: dict[str, Any]) -> dict[str, int]:
    return {one["sessionId"]: one["messageCount"] for one in page["sessions"]}


class Gate:
    """Holds up what a store tells of its sessions for lists, after it was read."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.reached = asyncio.Event(), asyncio.Event()
        self._heads = store.heads
        monkeypatch.setattr(store, "heads", self.heads)

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        found = await self._heads(local_ids)
        self.reached.set()
        await self.open.wait()
        return found


async def test_all_sessions_are_listed_before_any_is_read(service: Service, store: MemoryStore) -> None:
    """A list is whole while no message was taken in yet; how many sessions there are to read is known from the beginning."""
    await service.catalog.ready.wait()
    there(store, "a", "b", "c")
    gate = asyncio.Event()
    store.before_read = gate.wait
    service.catalog.start([store])
    page = await service.list()
    assert shown(page) == {"a": 1, "b": 1, "c": 1} and "incomplete" not in page
    assert service.index.messages == {} and not service.catalog.ready.is_set()
    told = msgspec.to_builtins(service.catalog.status())
    assert (told["state"], told["read"], told["found"]) == ("building", 0, 3)
    assert all(one.fingerprint is None for one in service.index.infos.values())
    gate.set()
    await service.catalog.ready.wait()
    told = msgspec.to_builtins(service.catalog.status())
    assert (told["state"], told["read"], told["found"]) == ("ready", 3, 3)
    assert all(one.fingerprint for one in service.index.infos.values())


async def test_the_status_names_sessions_that_are_not_indexed_completely(service: Service) -> None:
    """Five of them, and how many more there are; the index is ready all the same."""
    await service.catalog.ready.wait()
    assert service.catalog.status().problem is None
    service.index.left_out = ["a", "b"]  # type: ignore[misc]
    told = service.catalog.status()
    assert (told.state, told.problem) == ("ready", "not everything could be indexed of a, b")
    service.index.left_out = list("abcdefg")  # type: ignore[misc]
    assert service.catalog.status().problem == "not everything could be indexed of a, b, c, d, e and 2 more"


async def test_a_session_that_cannot_be_read_for_the_index_costs_itself(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours in one session: the others are indexed, and the status names it until it can be read."""
    await service.catalog.ready.wait()
    there(store, "a", "b", "c")
    real = service.catalog._reindex

    async def reindex(store: Any, listed: Any) -> Any:
        if listed.local_id == "b":
            raise KeyError("a bug")
        return await real(store, listed)

    monkeypatch.setattr(service.catalog, "_reindex", reindex)
    [warning] = await service.catalog.check(store)
    assert warning.message == "was not indexed: KeyError('a bug')"
    assert sorted(service.index.messages) == ["a", "c"]
    told = service.catalog.status()
    assert (told.state, told.problem) == ("ready", "not everything could be indexed of b")
    monkeypatch.setattr(service.catalog, "_reindex", real)
    assert await service.catalog.check(store) == []
    assert sorted(service.index.messages) == ["a", "b", "c"]
    assert service.catalog.status().problem is None


async def test_a_list_says_what_it_may_lack(
    service: Service, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as not all sessions are known, what is known is shown after a moment, with a word that there may be more."""
    monkeypatch.setattr(find, "_PATIENCE_S", 0.02)
    await service.catalog.ready.wait()
    there(store, "a", "b")
    gate = Gate(store, monkeypatch)
    service.catalog.start([store])
    await service.new(None, session_id="c", name="new")
    page = await service.list()
    assert page["incomplete"] is True and shown(page) == {"c": 0}
    gate.open.set()
    await service.catalog.listed.wait()
    page = await service.list()
    assert "incomplete" not in page and shown(page) == {"a": 1, "b": 1, "c": 0}


async def test_what_changed_meanwhile_counts_more_than_its_file(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was deleted, or changed and let go, after its file was read for the list."""
    await service.catalog.ready.wait()
    there(store, "gone", "grown", "still")
    gate = Gate(store, monkeypatch)
    service.catalog.start([store])
    await gate.reached.wait()
    await service.delete("gone")
    await service.append(peer, "grown", [user("more")])
    monkeypatch.setattr(service.open_sessions, "peek", lambda wire_id: None)  # as if it had left the memory by now
    monkeypatch.setattr(service.open_sessions, "in_memory", lambda store: [])
    service.catalog.feed()
    store.before_read = asyncio.Event().wait
    gate.open.set()
    await service.catalog.listed.wait()
    assert {one.session_id: one.message_count for one in service.index.infos.values()} == {"grown": 2, "still": 1}


async def test_what_is_in_memory_counts_more_than_its_file(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has changed, and was not saved, before an index was lost which had it."""
    await service.catalog.ready.wait()
    there(store, "a")
    await service.append(peer, "a", [user("more")])
    await service.catalog.settled()
    heads = store.heads
    service.index.infos.clear()

    async def older(local_ids: Sequence[str]) -> list[SessionInfo]:
        return [SessionInfo(session_id=one.session_id, created_at=T, updated_at=T) for one in await heads(local_ids)]

    monkeypatch.setattr(store, "heads", older)
    store.before_read = asyncio.Event().wait
    service.catalog.start([store])
    await service.catalog.listed.wait()
    assert service.index.infos["a"].message_count == 2


async def test_a_save_does_not_say_that_all_of_it_is_in_the_index(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its older messages are still to be read: with its fingerprint, they would never be found after a kill."""
    await service.catalog.ready.wait()
    there(store, "a", "b")
    gate = Gate(store, monkeypatch)
    service.catalog.start([store])
    await gate.reached.wait()
    for reading in (False, True):
        await service.append(peer, "a", [user("more")])
        if reading:
            held = asyncio.Event()
            store.before_read = held.wait
            monkeypatch.setattr(service.catalog, "_reindex", lambda *_: asyncio.sleep(0, []))
            gate.open.set()
            await service.catalog.listed.wait()
        await service.save("a")
        assert service.index.infos["a"].fingerprint is None


async def test_a_list_does_not_wait_for_an_index_that_is_built_anew(
    service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a delete for ever: what is not there by then may be missing, and that is said; so do searches."""
    monkeypatch.setattr(find, "_PATIENCE_S", 0.02)
    await service.catalog.ready.wait()
    await service.new(peer, session_id="a")
    gate = asyncio.Event()

    async def waits(*_: object, **__: object) -> None:
        await gate.wait()

    monkeypatch.setattr(service.index, "settled", waits)
    monkeypatch.setattr(service.index, "erasing", True)
    monkeypatch.setattr(service.index, "listable", lambda: False)
    assert (await service.list())["incomplete"] is True
    assert (await service.search(None, query="text"))["incomplete"] is True
    assert (await service.status()).stores[0].sessions == 1
    gate.set()
    assert "incomplete" not in await service.list()
    assert "incomplete" not in await service.search(None, query="text")


async def test_a_delete_is_fed_once(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint that its file has gone feeds nothing more, for which a list would wait; a second life of the id is another thing."""
    removed: list[str] = []
    await service.catalog.ready.wait()
    monkeypatch.setattr(service.index, "remove", removed.append)
    for times in (1, 2):
        await service.new(peer, session_id="a", messages=[user("text")])
        await service.delete("a")
        assert await service.catalog.recheck(store, "a")
        assert removed == ["a"] * times
