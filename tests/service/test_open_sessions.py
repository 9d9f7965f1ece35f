"""Open sessions while their store, their clients and the clock do anything: what is reported, kept and released."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Any

import pytest

from sessiond.errors import SessiondError, SessionNotFound
from sessiond.limits import Limits
from sessiond.model.changes import Updated
from sessiond.model.message import Message, wire_from_client
from sessiond.model.session import Session
from sessiond.service.sessions import Service
from sessiond.store.port import HealthChanged, Recovered, StoreProblem, Touched
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore, StoredInMemory
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


async def turns(count: int = 20) -> None:
    """Let everything run that is ready to."""
    for _ in range(count):
        await asyncio.sleep(0)


def time_is_over(service: Service, session_id: str) -> None:
    """The moment at which it is looked whether a session can go."""
    open_sessions, one = service.open_sessions, service.open_sessions.peek(session_id)
    assert one is not None
    open_sessions._timers[one].cancel()
    open_sessions._look_again(one)


@pytest.fixture
async def cramped(store: MemoryStore, clock: ManualClock):
    """A service with room in memory for about two sessions that nobody has open."""
    limits = Limits(idle_sessions_bytes=6000)
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=clock, limits=limits)
    await service.start()
    yield service
    await service.close()


async def test_the_sessions_that_were_used_longest_ago_go_first(
    cramped: Service, clock: ManualClock, peer: FakePeer
) -> None:
    """Where those that nobody has open are too many, the oldest leave the memory a moment after their last use; the others stay,
    and one that is asked for again is read again.
    """
    for session_id in "abcd":
        await cramped.new(peer, session_id=session_id, messages=[user("x" * 2000)])
        clock.advance(1)
        await cramped.close_session(peer, session_id)
    cramped.open_sessions._spare_some()
    clock.advance(2)
    for session_id in "abcd":
        time_is_over(cramped, session_id)
    assert [session_id for session_id in "abcd" if cramped.open_sessions.peek(session_id)] == ["c", "d"]
    assert cramped.released() > 4000
    assert cramped.released() == 0
    assert len((await cramped.read("a"))["messages"]) == 1
    assert cramped.open_sessions.peek("b") is None


async def test_sessions_that_are_only_opened_and_closed_go_as_well(
    cramped: Service, store: MemoryStore, clock: ManualClock, peer: FakePeer
) -> None:
    """A client that looks at one session after the other saves nothing: what it has closed is not kept for a minute."""
    for session_id in "abcd":
        store.sessions[session_id] = Session(session_id, created_at="2026-01-11T14:30:22.000Z")
        said = wire_from_client(user("x" * 2000), message_id="m", seq=1, now="2026-01-11T14:30:22.000Z")
        store.sessions[session_id].add_message(Message.from_wire(said))
    for session_id in "abcd":
        await cramped.open(peer, session_id)
        await cramped.close_session(peer, session_id)
    sparing = cramped.open_sessions._sparing
    assert sparing is not None
    sparing.cancel()
    cramped.open_sessions._spare_some()
    clock.advance(2)
    for session_id in "ab":
        time_is_over(cramped, session_id)
    assert [session_id for session_id in "abcd" if cramped.open_sessions.peek(session_id)] == ["c", "d"]


async def test_whoever_comes_in_the_last_moment_keeps_the_session(
    service: Service, store: MemoryStore, clock: ManualClock, peer: FakePeer, other: FakePeer
) -> None:
    """Its time is over and it is about to go, when somebody opens it: it is there, an empty one too, and who opened it is told of what
    happens to it.
    """
    await service.new(peer, session_id="empty")
    await service.new(peer, session_id="full", messages=[user("1")])
    service.disconnected(peer)
    await turns()
    clock.advance(100_000)
    for session_id in ("empty", "full"):
        time_is_over(service, session_id)
        assert (await service.open(other, session_id))["session"]["attached"] == 1
        await turns()
        assert other in service.open_sessions.at(session_id).audience
        await service.append(peer, session_id, [user("more")])
        assert len(other.take("session/changed")) == 1
    assert set(store.sessions) == {"empty", "full"}


async def test_an_edit_of_a_session_that_nobody_has_open_is_indexed(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """What somebody else wrote can be found, and nobody is told."""
    await service.new(peer, session_id="a", messages=[user("mine", id="m")])
    await service.close_session(peer, "a")
    await service.catalog.settled()
    one = service.open_sessions.at("a")
    service.open_sessions.let_go(one)
    service.open_sessions.let_go(one)  # gone already
    assert service.open_sessions.peek("a") is None
    edited = store.sessions["a"].snapshot()
    said = wire_from_client(user("theirs"), message_id="n", seq=edited.seq + 1, now=edited.created_at)
    edited.add_message(Message.from_wire(said))
    store.edit("a", edited)
    await turns()
    assert service.index.messages["a"] == {"m": "mine", "n": "theirs"}
    assert service.open_sessions.peek("a") is None
    assert peer.take() == []


async def test_the_health_of_a_store_is_logged(
    service: Service, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Once when it falls ill, once when it is well again."""
    store.emit(HealthChanged(StoreProblem("readOnly", "the disk is full")))
    store.emit(HealthChanged(None))
    assert [record.getMessage() for record in caplog.records] == [
        "store default: the disk is full",
        "store default: usable again",
    ]


async def test_a_fault_in_the_background_is_logged_and_the_service_goes_on(
    service: Service,
    store: MemoryStore,
    peer: FakePeer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for it, so nobody else would tell."""

    async def broken(local_id: str) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(store, "look", broken)
    store.emit(Touched(frozenset({"a"})))
    await turns()
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None and "a fault of ours" in str(record.exc_info[1])
    assert (await service.new(peer, session_id="b"))["sessionId"] == "b"


async def test_a_reader_that_missed_nothing_is_told_nothing(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """A connection that reads again is told to resync only of sessions of which something was dropped."""
    await service.new(other, session_id="a")
    await service.new(other, session_id="b")
    await service.new(peer, session_id="c")
    other.full = True
    await service.append(peer, "a", [user("1")])
    other.full = False
    service.drained(other)
    service.drained(other)
    assert other.take() == [{"sessionId": "a", "seq": 1}]


async def test_a_hint_of_an_open_session_is_no_work_for_the_index(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner compares the file; as soon as nobody has it in memory, the index does."""
    await service.new(peer, session_id="a", messages=[user("mine", id="m")])
    looked: list[str] = []

    async def look(local_id: str) -> None:
        looked.append(local_id)

    monkeypatch.setattr(store, "look", look)
    store.emit(Touched(frozenset({"a"})))
    store.emit(Touched(frozenset(), all_open=True))
    await turns()
    assert looked == []
    assert service.open_sessions.peek("a") is not None
    await service.close_session(peer, "a")
    service.open_sessions.let_go(service.open_sessions.at("a"))
    store.emit(Touched(frozenset({"a"})))
    await turns()
    assert looked == ["a"]


async def test_what_only_the_journal_knows_has_one_owner(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """One that is open already gets no second owner; one that is not stays unread, is dirty, and is saved with the others."""
    await service.new(peer, session_id="a")
    one = service.open_sessions.peek("a")
    session = store.sessions["b"] = Session("b", one.there.created_at)
    session.update({"name": "N"})
    store.unsaved.add("b")
    store.emit(Recovered(["a", "b"]))
    assert service.open_sessions.peek("a") is one
    other = service.open_sessions.at("b")
    assert other.session is None and other in service.open_sessions.dirty
    service.open_sessions.let_go(other)
    service.open_sessions.idle(other)
    assert service.open_sessions.at("b") is other
    assert {saved["sessionId"] for saved in await service.save()} == {"a", "b"}
    assert service.open_sessions.dirty == set()


async def test_a_change_that_was_cancelled_while_it_waited_for_its_turn(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """A clear that is taken back before it began clears nothing."""
    await service.new(peer, session_id="a", messages=[user("1")])
    gate = asyncio.Event()
    store.before_commit = gate.wait
    appending = asyncio.create_task(service.append(peer, "a", [user("2")]))
    await turns(3)
    clearing = asyncio.create_task(service.clear(peer, "a"))
    await turns(3)
    clearing.cancel()
    gate.set()
    await appending
    with pytest.raises(asyncio.CancelledError):
        await clearing
    await turns()
    assert len(store.sessions["a"]) == 2


async def test_a_delete_that_comes_first_ends_what_waits(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """Later jobs in the queue fail because the session is gone, both changes and whole actions."""
    await service.new(peer, session_id="a", messages=[user("1")])
    gate = asyncio.Event()
    store.before_commit = gate.wait
    first = asyncio.create_task(service.append(peer, "a", [user("2")]))
    await turns(3)
    late = [service.delete("a"), service.append(peer, "a", [user("3")]), service.clear(peer, "a")]
    tasks = [asyncio.create_task(one) for one in late]
    await turns(3)
    gate.set()
    await first
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert done[0] is None
    assert all(isinstance(one, SessionNotFound) for one in done[1:]), done
    assert "a" not in store.sessions


async def test_an_update_is_told_with_the_whole_info(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Listeners do not have to ask again."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    one = service.open_sessions.at("a")
    change = Updated(seq=one.there.seq + 1, at=one.there.created_at, fields={"name": "N"})
    one.there.apply(change)
    one.publish([change], None)
    [told] = other.take("session/changed")
    assert told["changes"][0]["session"]["name"] == "N"
    assert told["origin"] == {"client": "sessiond", "connection": 0}


# One owner


async def test_an_owner_that_never_came_to_hold_a_session_leaves_at_once(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Requests for sessions that do not exist do not fill the memory; nor do deleted sessions."""
    for n in range(10):
        with pytest.raises(SessionNotFound):
            await service.read(f"none{n}")
    await service.new(peer, session_id="a", messages=[user("1")])
    gone = service.open_sessions.at("a")
    await service.delete("a")
    await turns()
    assert service.open_sessions._all == {} and service.open_sessions._timers == {}
    assert gone.ended
    assert service.open_sessions.at("a") is not gone
    with pytest.raises(AssertionError):
        await gone.look(lambda _: None)


async def test_who_is_in_use_stays_the_owner(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """Code that keeps one across an await says so; as soon as nothing keeps it and it is not loaded, it leaves."""
    one = service.open_sessions.at("a")
    with one.in_use():
        with pytest.raises(SessionNotFound):
            await service.read("a")
        await turns()
        service.open_sessions.let_go(one)
        assert service.open_sessions.at("a") is one
        with one.in_use():
            pass
        assert service.open_sessions.at("a") is one
    assert one.ended
    assert service.open_sessions._all == {}


async def test_what_is_open_busy_or_not_saved_is_not_let_go(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Each of these keeps its owner; without them it goes, in a single turn of the loop."""
    await service.new(peer, session_id="a", messages=[user("1")])
    one = service.open_sessions.at("a")
    await service.save("a")
    service.open_sessions.let_go(one)
    assert not one.ended, "somebody has it open"
    await service.close_session(peer, "a")
    await service.append(None, "a", [user("2")])
    service.open_sessions.let_go(one)
    assert not one.ended, "it is not saved"
    await service.save("a")
    looking = asyncio.create_task(one.alone(turns))
    await turns(2)
    service.open_sessions.let_go(one)
    assert not one.ended, "something is under way"
    await looking
    service.open_sessions.let_go(one)
    assert one.ended and service.open_sessions.peek("a") is None
    assert len((await service.read("a"))["messages"]) == 2


async def test_a_session_that_one_lets_go_while_another_asks_for_it(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Two ask at once for a session that is not in memory, and the first needs it no more before the second has seen it: the
    second finds it nevertheless.
    """
    await service.new(peer, session_id="a", messages=[user("first")])
    await service.close_session(peer, "a")
    service.open_sessions.let_go(service.open_sessions.at("a"))
    assert service.open_sessions.peek("a") is None

    async def briefly() -> None:
        one = service.open_sessions.at("a")
        await one.look(lambda _: None)
        service.open_sessions.let_go(one)

    await asyncio.gather(briefly(), service.open(peer, "a"))
    assert (await service.append(None, "a", [user("second")]))["seq"] == 2
    assert [method for method, _ in peer.got if method == "session/changed"] == ["session/changed"]


async def test_a_session_that_goes_while_others_are_saved(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """A save of everything takes a while: it does not fail because of sessions that are deleted, or saved and released, meanwhile."""
    for session_id in "abcd":
        await service.new(peer, session_id=session_id, messages=[user("1")])
    gate = asyncio.Event()
    first = next(iter(list(service.open_sessions.dirty)))
    store.before_save = gate.wait
    saving = asyncio.create_task(service.save())
    await turns()
    store.before_save = None
    others = [one for one in service.open_sessions.dirty if one is not first]
    await service.delete(others[0].wire_id)
    await service.close_session(peer, others[1].wire_id)
    await others[1].save()
    service.open_sessions.let_go(others[1])
    await turns()
    assert others[0].ended and others[1].ended
    gate.set()
    saved = {one["sessionId"] for one in await saving}
    assert saved == {first.wire_id, others[2].wire_id}


async def test_a_connection_that_ends_while_its_session_is_deleted(
    service: Service,
    store: MemoryStore,
    peer: FakePeer,
    other: FakePeer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it ends before the delete has its turn or right in the middle of it: that is nothing to tell anybody of."""
    for session_id in "ab":
        await service.new(peer, session_id=session_id, messages=[user("1")])
        await service.open(other, session_id)
    gate = asyncio.Event()
    store.before_commit = gate.wait
    appending = asyncio.create_task(service.append(peer, "a", [user("2")]))
    deleting = asyncio.create_task(service.delete("a"))
    await turns()
    service.disconnected(other)
    gate.set()
    await asyncio.gather(appending, deleting)
    await service.open(peer, "b")
    put = store.put_into_trash

    def ends(trash_id: str, session: Session, reason: str) -> None:
        put(trash_id, session, reason)
        service.disconnected(peer)

    monkeypatch.setattr(store, "put_into_trash", ends)
    await service.delete("b")
    await turns()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


class Owned(MemoryStore):
    """Whatever touches a session is its one owner's."""

    def __init__(self) -> None:
        super().__init__()
        self.service: Service
        self.under_way: dict[str, int] = {}

    def session(self, local_id: str) -> StoredInMemory:
        return OwnedSession(self, local_id)


class OwnedSession(StoredInMemory):
    def _check(self) -> None:
        store: Any = self._store
        one = store.service.open_sessions._all.get(self.local_id)
        assert one is not None and one.stored is self and not one.ended

    async def _slowly(self) -> None:
        self._check()
        for _ in range(random.randrange(3)):
            await asyncio.sleep(0)
        self._check()

    async def read(self, *, whole: bool) -> Session:
        await self._slowly()
        return await super().read(whole=whole)

    async def commit(self, session: Session, changes: Any, on_durable: Any = None, *, agreed: bool = False) -> None:
        await self._slowly()
        await super().commit(session, changes, on_durable, agreed=agreed)

    async def save(self, session: Session) -> Any:
        await self._slowly()
        return await super().save(session)

    async def changed(self) -> bool:
        await self._slowly()
        return await super().changed()

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        await self._slowly()
        await super().delete(session, permanent=permanent)

    async def restore(self) -> Session:
        await self._slowly()
        return await super().restore()


@pytest.mark.parametrize("seed", range(20))
async def test_two_owners_never_exist(clock: ManualClock, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """Several clients ask for the same few sessions, let go of them, delete and restore them, and give up, in any order: whatever is
    read or written is done by the owner that the registry names, no message appears twice, and nothing is left behind.
    """
    rng = random.Random(seed)
    random.seed(seed)
    store = Owned()
    service = store.service = WireService(
        stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits(idle_sessions_bytes=0)
    )

    async def client(number: int) -> None:
        peer = FakePeer(str(number))
        for step in range(30):
            session_id = rng.choice("ab")
            text = f"{number}-{step}"
            kind = rng.choice(
                (
                    "new",
                    "append",
                    "append",
                    "open",
                    "close",
                    "save",
                    "delete",
                    "restore",
                    "let go",
                    "leave",
                    "touch",
                    "list",
                )
            )
            try:
                if kind == "new":
                    await service.new(peer, session_id=session_id, name="N")
                elif kind == "append":
                    asking = asyncio.create_task(service.append(peer, session_id, [user(text, id=text)]))
                    if rng.random() < 0.2:
                        await turns(rng.randrange(4))
                        asking.cancel()
                    try:
                        await asking
                    except asyncio.CancelledError:
                        continue
                elif kind == "open":
                    await service.open(peer, session_id)
                elif kind == "close":
                    await service.close_session(peer, session_id)
                elif kind == "save":
                    await service.save(session_id)
                elif kind == "delete":
                    await service.delete(session_id)
                elif kind == "restore":
                    await service.restore(peer, session_id)
                elif kind == "let go":
                    service.open_sessions.let_go(service.open_sessions.at(session_id))
                elif kind == "leave":
                    service.disconnected(peer)
                elif kind == "touch":
                    store.emit(Touched(frozenset({session_id}), all_open=rng.random() < 0.5))
                else:
                    await service.list()
            except SessiondError:
                pass
            await turns(rng.randrange(4))
        service.disconnected(peer)

    await service.start()
    await asyncio.wait_for(asyncio.gather(*(client(n) for n in range(6))), 30)
    await turns()
    for session_id in "ab":
        if session_id not in store.sessions:
            with contextlib.suppress(SessiondError):
                await service.restore(None, session_id)
    await asyncio.wait_for(service.close(), 10)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert service.open_sessions._of_peer == {}
    assert not any(one.busy for one in service.open_sessions._all.values())
    for session in store.sessions.values():
        ids = [message.id for message in session.messages()]
        assert len(ids) == len(set(ids))
