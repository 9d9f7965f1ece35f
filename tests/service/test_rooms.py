"""Open sessions while their store, their clients and the clock do as they like: what is told, what is kept, what is let go."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sessiond.errors import SessionNotFound
from sessiond.limits import Limits
from sessiond.model.changes import Updated
from sessiond.model.message import message_from_client
from sessiond.service.sessions import Service
from sessiond.store.memory import MemoryStore
from sessiond.store.port import Appeared, HealthChanged, Loaded, Reloaded
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user


async def turns(count: int = 20) -> None:
    """Let everything run that is ready to."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def cramped(store: MemoryStore, clock: ManualClock):
    """A service with room in memory for about two sessions that nobody has open."""
    limits = Limits(idle_sessions_bytes=6000)
    service = Service(stores={"default": store}, index=FakeIndex(), clock=clock, limits=limits)
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
    clock.advance(2)
    for session_id in "abcd":
        cramped.rooms._look_again(session_id)
    await turns()
    assert [session_id for session_id in "abcd" if cramped.rooms.peek(session_id)] == ["c", "d"]
    assert cramped.released() > 4000
    assert cramped.released() == 0
    assert len((await cramped.read("a"))["messages"]) == 1
    cramped.rooms._look_again("b")  # its timer may go off although it left otherwise
    assert cramped.rooms.peek("b") is None


async def test_whoever_comes_in_the_last_moment_keeps_the_session(
    service: Service, store: MemoryStore, clock: ManualClock, peer: FakePeer, other: FakePeer
) -> None:
    """Its time is over and it is about to go, when somebody opens it: it stays, an empty one too."""
    await service.new(peer, session_id="empty")
    await service.new(peer, session_id="full", messages=[user("1")])
    service.disconnected(peer)
    await turns()
    clock.advance(100_000)
    for session_id in ("empty", "full"):
        room = service.rooms.peek(session_id)
        service.rooms._look_again(session_id)
        await service.open(other, session_id)
        await turns()
        assert service.rooms.peek(session_id) is room
    assert set(store.sessions) == {"empty", "full"}


async def test_an_edit_of_a_session_that_nobody_has_open_is_indexed(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """What somebody else wrote can be found, and nobody is told."""
    await service.new(peer, session_id="a", messages=[user("mine", id="m")])
    await service.close_session(peer, "a")
    room = service.rooms.peek("a")
    await service.rooms.let_go(room)
    await service.rooms.let_go(room)  # gone already
    edited = store.sessions["a"].snapshot()
    edited.add_message(message_from_client(user("theirs"), message_id="n", seq=edited.seq + 1, now=edited.created_at))
    store.sessions["a"] = edited
    store.emit(Reloaded(edited, []))
    assert service.index.messages["a"] == {"m": "mine", "n": "theirs"}
    assert peer.take() == []


async def test_the_health_of_a_store_is_logged(
    service: Service, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Once when it falls ill, once when it is well again."""
    store.emit(HealthChanged("readOnly", "the disk is full"))
    store.emit(HealthChanged(None, None))
    assert [record.getMessage() for record in caplog.records] == [
        "store default: the disk is full",
        "store default: well again",
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
    store.emit(Appeared("a"))
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


async def test_a_file_that_appears_under_an_open_session_is_not_read(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room knows better than the file; as soon as nobody has it open, the file is looked at."""
    await service.new(peer, session_id="a", messages=[user("mine", id="m")])
    looked: list[str] = []

    async def look(local_id: str) -> None:
        looked.append(local_id)

    monkeypatch.setattr(store, "look", look)
    store.emit(Appeared("a"))
    await turns()
    assert looked == []
    assert service.rooms.peek("a") is not None
    await service.close_session(peer, "a")
    await service.rooms.let_go(service.rooms.peek("a"))
    store.emit(Appeared("a"))
    await turns()
    assert looked == ["a"]


async def test_an_empty_session_of_the_journals_is_kept_by_one_room(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """One that is open already is not opened a second time."""
    await service.new(peer, session_id="a")
    room = service.rooms.peek("a")
    service.rooms.keep(store, Loaded(store.sessions["a"], []))
    assert service.rooms.peek("a") is room


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
    """What stands behind it in the queue is told that the session is gone, changes and whole actions alike."""
    await service.new(peer, session_id="a", messages=[user("1")])
    gate = asyncio.Event()
    store.before_commit = gate.wait
    first = asyncio.create_task(service.append(peer, "a", [user("2")]))
    await turns(3)
    late = [service.delete(peer, "a"), service.append(peer, "a", [user("3")]), service.clear(peer, "a")]
    tasks = [asyncio.create_task(one) for one in late]
    await turns(3)
    gate.set()
    await first
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert done[0] is None
    assert all(isinstance(one, SessionNotFound) for one in done[1:]), done
    assert "a" not in store.sessions


async def test_an_update_is_told_with_the_whole_info(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Whoever listens needs not ask again."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    room = service.rooms.peek("a")
    change = Updated(seq=room.session.seq + 1, at=room.session.created_at, fields={"name": "N"})
    room.session.apply(change)
    room.publish([change], None)
    [told] = other.take("session/changed")
    assert told["changes"][0]["session"]["name"] == "N"
    assert told["origin"] == {"client": "sessiond", "connection": 0}
