"""A writer whose session is replaced under it again and again: nothing is acknowledged that is not durable, nobody hangs."""

from __future__ import annotations

import asyncio

import pytest

from sessiond.errors import Conflict, ReadOnly, SessionNotFound


def _one(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


async def test_a_session_that_never_stands_still_is_a_conflict(service, store, peer):
    """However often the store says that somebody else came first: the append fails honestly in the end."""
    await service.new(peer, session_id="a", messages=_one("first"))

    def replaced() -> None:
        store.sessions["a"] = store.sessions["a"].snapshot()

    store.before_commit = replaced
    with pytest.raises(Conflict):
        await asyncio.wait_for(service.append(peer, "a", _one("second")), 5)
    store.before_commit = None
    assert len(store.sessions["a"]) == 1
    assert (await service.append(peer, "a", _one("third")))["seq"] == 2


async def test_a_session_that_vanishes_under_its_writer(service, store, peer):
    """Every append that waits is told sessionNotFound; none waits for ever."""
    await service.new(peer, session_id="a", messages=_one("first"))

    def vanish() -> None:
        store.sessions.pop("a", None)

    store.before_commit = vanish
    appends = [asyncio.create_task(service.append(peer, "a", _one(str(n)))) for n in range(3)]
    done = await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 5)
    assert all(isinstance(one, SessionNotFound) for one in done), done


async def test_what_waits_when_its_session_is_deleted(service, peer, other):
    """Whoever has it open hears of the end first; then what waits is refused, with that as the reason."""
    await service.new(peer, session_id="a", messages=_one("first"))
    heard: list[str] = []

    async def late() -> None:
        with pytest.raises(SessionNotFound, match="it was deleted"):
            await service.state_set(peer, "a", {"draft": "typed"})
        heard.extend(method for method, _ in peer.got)

    await asyncio.wait_for(asyncio.gather(service.delete(other, "a"), late()), 5)
    assert heard == ["session/deleted"]


async def test_a_session_that_one_lets_go_while_another_asks_for_it(service, store, peer):
    """Two ask at once for a session that is not in memory, and the first needs it no more before the second has seen it: the second
    finds it all the same.
    """
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.close_session(peer, "a")
    await service.rooms.let_go(await service.rooms.get("a"))
    assert service.rooms.peek("a") is None

    async def briefly() -> None:
        await service.rooms.let_go(await service.rooms.get("a"))

    async def opened() -> None:
        await service.open(peer, "a")

    await asyncio.gather(briefly(), opened())
    assert (await service.append(None, "a", _one("second")))["seq"] == 2
    assert [method for method, _ in peer.got if method == "session/changed"] == ["session/changed"]


async def test_a_session_that_is_let_go_while_its_file_is_compared(service, store, peer, monkeypatch):
    """Opening a session looks at its file; where somebody lets the session go meanwhile, whoever opens it is told of changes all the same."""
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.close_session(peer, "a")
    room, load = await service.rooms.get("a"), store.load

    async def slowly(local_id: str, **how: bool):
        monkeypatch.undo()
        await service.rooms.let_go(room)
        return await load(local_id, **how)

    monkeypatch.setattr(store, "load", slowly)
    await service.open(peer, "a")
    await service.append(None, "a", _one("second"))
    assert [method for method, _ in peer.got if method == "session/changed"] == ["session/changed"]


async def test_nobody_sees_a_session_before_it_is_durable(service, store, peer, other):
    """Who asks for a session that is being made waits for it, and both are in the same room."""
    gate = asyncio.Event()
    store.before_commit = gate.wait
    making = asyncio.create_task(service.new(peer, session_id="a", messages=_one("first")))
    await asyncio.sleep(0)
    opening = asyncio.create_task(service.open(other, "a"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not opening.done()
    store.before_commit = None
    gate.set()
    await asyncio.gather(making, opening)
    assert (await service.open(other, "a"))["session"]["attached"] == 2


async def test_a_cancelled_new_that_is_on_its_way_to_the_disk_is_answered(service, store, peer):
    """What is durable can not be cancelled any more, so its answer says what is so."""
    gate = asyncio.Event()
    store.before_commit = gate.wait
    making = asyncio.create_task(service.new(peer, session_id="a"))
    for _ in range(3):
        await asyncio.sleep(0)
    making.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert (await making)["sessionId"] == "a"


async def test_a_cancelled_append_is_answered_in_the_moment_of_its_cancellation(service, store, peer):
    """Who is cancelled while the commit ends, and does not know it yet, is answered all the same: with what is so, or with why not."""
    await service.new(peer, session_id="a")
    appending: list[asyncio.Task] = []
    appending.append(asyncio.create_task(service.append(peer, "a", _one("kept"))))
    store.before_commit = appending[0].cancel
    assert (await asyncio.wait_for(appending[0], 10))["seq"] == 1

    def full() -> None:
        appending[1].cancel()
        raise ReadOnly("the disk is full")

    store.before_commit = full
    appending.append(asyncio.create_task(service.append(peer, "a", _one("refused"))))
    with pytest.raises(ReadOnly):
        await asyncio.wait_for(appending[1], 10)
