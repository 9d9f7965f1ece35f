"""Whole sessions on the move: forks, exports, moves to another store, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import AlreadyExists, InvalidParams, ReadOnly, SessiondError, SessionNotFound, TooLarge
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.service.sessions import Service
from sessiond.store.port import SavedSession
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore, StoredInMemory
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


class Theia(MemoryStore):
    """`forgets`: what it is given it does not give back."""

    format = "theia"
    taken_state_keys = frozenset({"messages"})
    path = "/theia"
    forgets = False

    def session(self, local_id: str) -> StoredInMemory:
        return Forgetful(self, local_id) if self.forgets else super().session(local_id)


class Forgetful(StoredInMemory):
    async def put(self, session: Session) -> SavedSession:
        session.notes = []
        return await super().put(session)


@pytest.fixture
async def two(store: MemoryStore, clock: ManualClock):
    limits = Limits(export_bytes=2000)
    stores = {"default": store, "theia": Theia("theia")}
    service = WireService(
        stores=stores, index=FakeIndex(), clock=clock, limits=limits, home_paths=["/var/lib/sessiond-home"]
    )
    await service.start()
    yield service
    await service.close()


async def made(service: Service, peer: FakePeer) -> None:
    await service.new(peer, session_id="a", name="N", tags=["x"], messages=[user("1"), user("2")])
    await service.note_append(peer, "a", "Heading", "said")


async def test_a_reply_that_is_moved_is_interrupted(two: Service, peer: FakePeer) -> None:
    """Who writes it does so in the other store, if at all."""
    await two.new(peer, session_id="a")
    await two.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    moved = (await two.move(peer, "a", "theia"))["session"]["sessionId"]
    [message] = (await two.read(moved))["messages"]
    assert message["status"] == "interrupted"


async def test_a_move_takes_everything_along(two: Service, store: MemoryStore, peer: FakePeer, other: FakePeer) -> None:
    """A dry run tells what the other system will not show and moves nothing; the move leaves nothing behind, and whoever has
    the session open is told that it is gone from there.
    """
    await made(two, peer)
    await two.open(other, "a")
    told = await two.move(peer, "a", "theia", dry_run=True)
    assert told["session"]["sessionId"] == "a"
    assert told["lost"] == ["its name", "1 tag", "1 note", "the times of 2 messages"]
    assert (await two.move(peer, "a", "default"))["session"]["sessionId"] == "a"
    moved = await two.move(peer, "a", "theia")
    assert (moved["session"]["sessionId"], moved["session"]["store"], moved["lost"]) == (
        "theia/a",
        "theia",
        told["lost"],
    )
    assert [m["content"] for m in (await two.read("theia/a"))["messages"]] == ["1", "2"]
    assert [n["content"] for n in (await two.note_list("theia/a"))["notes"]] == ["said"]
    assert other.take("session/deleted") == [{"sessionId": "a", "movedTo": "theia/a"}]
    assert "a" not in store.sessions
    with pytest.raises(SessionNotFound):
        await two.read("a")


async def test_a_move_that_would_lose_something_moves_nothing(two: Service, store: MemoryStore, peer: FakePeer) -> None:
    """What the other store does not give back as it was remains where it is, and nothing of it is there."""
    await made(two, peer)
    theia: Any = two.stores["theia"]
    theia.forgets = True
    with pytest.raises(SessiondError, match="was not moved"):
        await two.move(peer, "a", "theia")
    assert theia.sessions == {}
    assert len(await theia.trash()) == 0
    assert len(store.sessions["a"].notes) == 1
    assert len((await two.read("a"))["messages"]) == 2


async def test_a_fork_of_a_reply_that_still_streams_in(two: Service, peer: FakePeer) -> None:
    """In the fork it is interrupted, because nobody writes it there; the original continues. A fork from before it has none of it."""
    await two.new(peer, session_id="a", messages=[user("1")])
    await two.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    fork, before = await two.fork(peer, "a"), await two.fork(peer, "a", at_seq=1)
    statuses = [
        [message.get("status") for message in (await two.read(session_id))["messages"]]
        for session_id in ("a", fork["sessionId"], before["sessionId"])
    ]
    assert statuses == [[None, "streaming"], [None, "interrupted"], [None]]


async def test_where_an_export_may_go(two: Service, peer: FakePeer, tmp_path: Path) -> None:
    """To a file of the user, not over another one unless asked to; never among the daemon's own files."""
    await made(two, peer)
    for path, words in (
        ("relative.md", "expected an absolute path"),
        ("/tmp/a\0b", "expected an absolute path"),
        ("/theia/a.md", "is in the store 'theia'"),
        ("/theia", "is in the store 'theia'"),
        ("/var/lib/sessiond-home/a.md", "is in one of sessiond's own folders"),
        (str(tmp_path), "is a folder"),
        (str(tmp_path / "none" / "a.md"), "cannot be written"),
    ):
        with pytest.raises(InvalidParams, match=words):
            await two.export("a", "text", path)
    path = tmp_path / "a.md"
    done = await two.export("a", "markdown", str(path))
    assert (done["path"], done["bytes"]) == (str(path), path.stat().st_size)
    path.write_text("mine")
    with pytest.raises(AlreadyExists):
        await two.export("a", "markdown", str(path))
    assert path.read_text() == "mine"
    await two.export("a", "markdown", str(path), overwrite=True)
    assert path.stat().st_size == done["bytes"]


async def test_an_export_that_is_too_large_for_an_answer(two: Service, peer: FakePeer, tmp_path: Path) -> None:
    """It is refused with a way out: a file."""
    await two.new(peer, session_id="a", messages=[user("x" * 3000)])
    with pytest.raises(TooLarge) as refused:
        await two.export("a", "text")
    assert refused.value.data["limit"] == 2000
    assert (await two.export("a", "text", str(tmp_path / "a.txt")))["bytes"] > 3000


async def test_a_store_that_cannot_save_one_session_saves_the_others(
    two: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is reported, and whatever could be saved is."""
    for session_id in "abc":
        await two.new(peer, session_id=session_id, messages=[user("1")])
    save = StoredInMemory.save

    async def sometimes(stored: StoredInMemory, session: Session) -> SavedSession | None:
        if stored.local_id == "b":
            raise ReadOnly("the disk is full")
        return await save(stored, session)

    monkeypatch.setattr(StoredInMemory, "save", sometimes)
    with pytest.raises(ReadOnly):
        await two.save()
    assert store.unsaved == {"b"}
    monkeypatch.undo()
    assert [one["sessionId"] for one in await two.save()] == ["b"]


async def test_a_theia_sessions_messages_are_no_state(two: Service, peer: FakePeer) -> None:
    """There the key `messages` of the state is where the messages stand, so it is refused; in other stores it is any key."""
    await two.new(peer, session_id="a", store="theia", name="N")
    await two.new(peer, session_id="a", name="N")
    with pytest.raises(InvalidParams, match=r"values\.messages: in a theia store this key holds other data"):
        await two.state_set(peer, "theia/a", {"messages": []})
    assert await two.state_set(peer, "a", {"messages": []}) == 1


async def test_a_move_never_displaces_a_session(two: Service, store: MemoryStore, peer: FakePeer) -> None:
    """Where the other store has one of that id, both remain as they are."""
    await made(two, peer)
    await two.new(peer, session_id="a", store="theia", name="Theirs", messages=[user("theirs")])
    with pytest.raises(AlreadyExists):
        await two.move(peer, "a", "theia")
    assert [m["content"] for m in (await two.read("a"))["messages"]] == ["1", "2"]
    assert [m["content"] for m in (await two.read("theia/a"))["messages"]] == ["theirs"]
