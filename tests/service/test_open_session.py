"""One open session: the order of its jobs, what is answered when, and what must never happen while its files are written,
replaced or removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sessiond.errors import Conflict, Indeterminate, ReadOnly, SessionNotFound, TooLarge, Unavailable
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import Json
from sessiond.service.open_session import OpenSession
from sessiond.service.sessions import Service
from sessiond.store.move_guard import MoveGuard
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

T = "2026-01-11T14:30:22.000Z"


def _one(text: str, **more: Any) -> list[dict[str, Json]]:
    return [user(text, **more)]


async def turns(count: int = 20) -> None:
    """Let everything run that is ready to."""
    for _ in range(count):
        await asyncio.sleep(0)


async def in_time(work: Awaitable[Any]) -> Any:
    """Nothing is cancelled after that: what has begun would not mind."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task}, timeout=5)
    assert task.done(), "somebody waits for ever"
    return task.result()


@pytest.fixture(autouse=True)
async def given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Where a test fails, gates are opened, and jobs that are never answered are given up: nobody else could end them."""
    jobs: list[Any] = []
    put = OpenSession._put

    def noted(one: OpenSession, job: Any) -> Any:
        jobs.append(job)
        return put(one, job)

    monkeypatch.setattr(OpenSession, "_put", noted)
    Gate.all.clear()
    yield
    for gate in Gate.all:
        gate.open()
    await turns()
    for job in jobs:
        if not job.answer.done():
            job.begun = False
            job.answer.cancel()


def later(*work: Coroutine[Any, Any, Any]) -> list[asyncio.Future[Any]]:
    """Begun one after another, before anything else happens."""
    return [asyncio.create_task(one) for one in work]


async def outcomes(*tasks: asyncio.Future[Any]) -> list[Any]:
    return await in_time(asyncio.gather(*tasks, return_exceptions=True))


async def said(one: OpenSession, text: str) -> Any:
    return await one.change(lambda draft: draft.append(_one(text), None))


async def alone(one: OpenSession, action: Callable[[], Awaitable[Any]]) -> Any:
    return await one.alone(action)


def texts(session: Session) -> list[Any]:
    return [message.content for message in session.messages()]


def kept(store: MemoryStore, *said: str) -> None:
    """A session that is in the store and is not in memory."""
    session = store.sessions["a"] = Session("a", T)
    for seq, text in enumerate(said, 1):
        session.add_message(Message(id=f"k{seq}", seq=seq, role="user", content=text, timestamp=T))


class Gate:
    """Callers wait here. `come`: how many have arrived."""

    all: ClassVar[list[Gate]] = []

    def __init__(self) -> None:
        self.all.append(self)
        self.come = 0
        self._open = asyncio.Event()

    async def __call__(self) -> None:
        self.come += 1
        await self._open.wait()

    def open(self) -> None:
        self._open.set()


# The queue


async def test_jobs_of_a_session_that_is_not_loaded_keep_their_order(service: Service, store: MemoryStore) -> None:
    """All of them are put before it is read, and it is read once: each sees what the earlier ones did, and nothing of the later
    ones.
    """
    kept(store, "first")
    gate = store.before_read = Gate()
    one = service.open_sessions.at("a")
    seen: list[Any] = []

    async def by_itself() -> None:
        seen.append(("alone", texts(one.there), one.dirty))

    def look(session: Session) -> None:
        seen.append(("look", texts(session), one.dirty))

    tasks = later(
        one.look(look), said(one, "second"), one.look(look), one.save(), alone(one, by_itself), said(one, "third"),
        one.look(look),
    )  # fmt: skip
    await turns()
    assert seen == [] and gate.come == 1
    gate.open()
    await outcomes(*tasks)
    assert seen == [
        ("look", ["first"], False),
        ("look", ["first", "second"], True),
        ("alone", ["first", "second"], False),
        ("look", ["first", "second", "third"], True),
    ]
    assert store.reads == 1


async def test_a_look_waits_for_the_changes_before_it(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """While an append is on its way to the disk, a look that came after it waits; where nothing is under way it needs no turn of the
    loop.
    """
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    with pytest.raises(StopIteration) as at_once:
        one.look(texts).send(None)
    assert at_once.value.value == ["first"]
    gate = store.before_commit = Gate()
    appending, looking = later(said(one, "second"), one.look(texts))
    await turns()
    assert not looking.done()
    gate.open()
    await in_time(appending)
    assert await in_time(looking) == ["first", "second"]


async def test_a_load_that_fails_is_told_to_those_that_waited(service: Service, store: MemoryStore) -> None:
    """Not to a job behind one that needs no loaded session, and not to the next one: it tries again."""
    kept(store, "first")
    failures: list[Exception] = [Unavailable("out of reach")]

    def sometimes() -> None:
        if failures:
            raise failures.pop()

    store.before_read = sometimes
    one = service.open_sessions.at("a")

    async def by_itself() -> str:
        return "done"

    tasks = later(one.look(texts), said(one, "x"), one.save(), alone(one, by_itself), one.look(texts))
    *failed, done, seen = await outcomes(*tasks)
    assert all(isinstance(error, Unavailable) for error in failed), failed
    assert len({id(error) for error in failed}) == 3, "each has its own, with its own traceback"
    assert (done, seen) == ("done", ["first"])
    assert await one.look(texts) == ["first"]


async def test_a_fault_in_a_load_leaves_nobody_waiting(service: Service, store: MemoryStore) -> None:
    """An error of the store is reported, and the next one tries again."""
    kept(store, "first")

    def broken() -> None:
        store.before_read = None
        raise ZeroDivisionError("a fault of ours")

    store.before_read = broken
    one = service.open_sessions.at("a")
    with pytest.raises(Exception, match="a fault of ours"):
        await in_time(one.look(texts))
    assert await in_time(service.open_sessions.at("a").look(texts)) == ["first"]


async def test_a_session_in_the_trash_takes_appends_from_its_restore_on(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """`append, restore, append` at once: fails, works, works."""
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.delete("a")
    tasks = later(
        service.append(peer, "a", _one("too soon")),
        service.restore(peer, "a"),
        service.append(peer, "a", _one("second")),
    )
    early, restored, appended = await outcomes(*tasks)
    assert isinstance(early, SessionNotFound)
    assert (restored["messageCount"], appended["seq"]) == (1, 2)
    assert texts(store.sessions["a"]) == ["first", "second"]


async def test_what_waits_when_its_session_is_deleted(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Clients that have it open hear of the end first; then waiting requests are refused."""
    await service.new(peer, session_id="a", messages=_one("first"))
    heard: list[str] = []

    async def late() -> None:
        with pytest.raises(SessionNotFound):
            await service.state_set(peer, "a", {"draft": "typed"})
        heard.extend(method for method, _ in peer.got)

    await in_time(asyncio.gather(service.delete("a"), late()))
    assert heard == ["session/deleted"]


async def test_nobody_sees_a_session_before_it_is_durable(
    service: Service, store: MemoryStore, peer: FakePeer, other: FakePeer
) -> None:
    """A request for a session that is being created waits for it, and both clients have the same one open."""
    gate = store.before_commit = Gate()
    making, opening = later(
        service.new(peer, session_id="a", messages=_one("first")), service.open(other, "a")
    )  # fmt: skip
    await turns()
    assert not opening.done() and service.open_sessions.peek("a") is None
    gate.open()
    await in_time(asyncio.gather(making, opening))
    assert opening.result()["session"]["attached"] == 2


async def test_an_id_that_the_daemon_makes_is_taken_in_the_turn_in_which_it_is_asked_for(
    service: Service, peer: FakePeer, other: FakePeer
) -> None:
    """Requests that name it later come after it, and two that are created at once are different."""
    names = ["session-20260111-143022", "session-20260111-143022-2"]
    tasks = later(
        service.new(peer), service.new(other), service.append(other, names[0], _one("x")),
        service.append(peer, names[1], _one("y")),
    )  # fmt: skip
    done = await outcomes(*tasks)
    assert not any(isinstance(one, Exception) for one in done), done
    assert [one["sessionId"] for one in done[:2]] == names
    assert [one["seq"] for one in done[2:]] == [1, 1]


# What is answered


async def test_a_cut_is_told_when_it_is_durable(
    service: Service, store: MemoryStore, peer: FakePeer, other: FakePeer
) -> None:
    """Not before that, and never where it cannot be: nothing is gone then."""
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.save("a")
    await service.open(other, "a")
    gate = Gate()

    async def full() -> None:
        await gate()
        raise ReadOnly("the disk is full")

    store.before_commit = full
    [cutting] = later(service.truncate(peer, "a", 0))
    await turns()
    assert gate.come == 1 and other.take("session/changed") == []
    gate.open()
    with pytest.raises(ReadOnly):
        await in_time(cutting)
    store.before_commit = None
    assert other.take("session/changed") == []
    assert texts(service.open_sessions.at("a").there) == ["first"]
    assert (await in_time(service.truncate(peer, "a", 0)))["removed"] == 1
    assert [told["seq"] for told in other.take("session/changed")] == [2]


@pytest.mark.parametrize("error", [ReadOnly("the disk is full"), Indeterminate("nobody knows"), ZeroDivisionError("x")])
async def test_a_refusal_names_no_seq_of_a_draft_that_was_given_up(
    service: Service, store: MemoryStore, peer: FakePeer, error: Exception
) -> None:
    """If a record cannot be made durable, the jobs in it get the error; a job that was refused because of the others' plans
    is planned again, on the present session.
    """
    await service.new(peer, session_id="a", messages=_one("first"))
    failures = [error]

    def fails_once() -> None:
        if failures:
            raise failures.pop()

    store.before_commit = fails_once
    tasks = later(
        service.append(peer, "a", _one("lost", id="x")),
        service.append(peer, "a", _one("refused"), expected_seq=7),
        service.append(peer, "a", _one("lost", id="x")),
        service.append(peer, "a", _one("other words", id="x")),
    )
    lost, refused, again, late = await outcomes(*tasks)
    assert isinstance(lost, Exception) and str(error) in str(lost)
    assert isinstance(refused, Conflict) and refused.data["seq"] == 1
    assert again == {"seq": 2, "messages": [{"id": "x", "seq": 2}]}, "a retry of what was lost is an append"
    assert isinstance(late, Conflict) and late.data["seq"] == 2, "that one is durable"
    assert texts(store.sessions["a"]) == ["first", "lost"]


async def test_a_batch_that_is_too_large_for_one_record_is_split(
    service: Service, store: MemoryStore, peer: FakePeer, other: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be small enough by itself: all are kept, in their order. One that is too large alone is refused, and no other."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    one = service.open_sessions.at("a")
    stored: Any = one.stored
    commit = stored.commit
    sizes: list[int] = []

    async def small_records(session: Session, changes: list[Change], on_durable: Any = None, **how: Any) -> None:
        if sum(len(str(change)) for change in changes) > 1000:
            raise TooLarge("too large for one record")
        sizes.append(len(changes))
        await commit(session, changes, on_durable)

    monkeypatch.setattr(stored, "commit", small_records)
    sent = [f"{n}" * (2000 if n == 13 else 1) for n in range(40)]
    done = await outcomes(*later(*(service.append(peer, "a", _one(text)) for text in sent)))
    assert [n for n, result in enumerate(done) if isinstance(result, TooLarge)] == [13]
    assert [result["seq"] for n, result in enumerate(done) if n != 13] == list(range(1, 40))
    assert texts(one.there) == sent[:13] + sent[14:]
    assert max(sizes) > 1
    told = [changed["seq"] for changed in other.take("session/changed")]
    assert told == list(range(1, 40))


async def test_a_cancelled_new_that_is_on_its_way_to_the_disk_is_answered(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """What is durable can no longer be cancelled, so the answer reports it."""
    gate = store.before_commit = Gate()
    [making] = later(service.new(peer, session_id="a"))
    await turns(3)
    making.cancel()
    await turns(1)
    gate.open()
    assert (await in_time(making))["sessionId"] == "a"


async def test_a_cancelled_append_is_answered_in_the_moment_of_its_cancellation(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """A caller that is cancelled while the commit ends, and does not know that yet, still gets the answer: the result or the error."""
    await service.new(peer, session_id="a")
    appending = later(service.append(peer, "a", _one("kept")))
    store.before_commit = appending[0].cancel
    assert (await in_time(appending[0]))["seq"] == 1

    def full() -> None:
        appending[1].cancel()
        raise ReadOnly("the disk is full")

    store.before_commit = full
    appending += later(service.append(peer, "a", _one("refused")))
    with pytest.raises(ReadOnly):
        await in_time(appending[1])


@pytest.mark.parametrize("error", [TooLarge("too large for one record"), ReadOnly("the disk is full")])
async def test_an_append_that_is_cancelled_as_its_batch_is_put_back(
    service: Service, store: MemoryStore, peer: FakePeer, error: Exception
) -> None:
    """It is tried again in a smaller record, or asked again: either it is answered and there, or cancelled and not there, and it waits
    for nobody for ever.
    """
    await service.new(peer, session_id="a", messages=_one("first"))
    appending: list[asyncio.Future[Any]] = []

    def fails_once() -> None:
        store.before_commit = None
        for task in appending[1:]:
            task.cancel()
        raise error

    store.before_commit = fails_once
    appending += later(
        service.append(peer, "a", _one("x", id="x")), service.append(peer, "a", _one("x", id="x")),
        service.append(peer, "a", _one("refused"), expected_seq=7),
    )  # fmt: skip
    first, second, refused = await outcomes(*appending)
    assert first == {"seq": 2, "messages": [{"id": "x", "seq": 2}]} or isinstance(first, ReadOnly)
    assert isinstance(second, asyncio.CancelledError) or second == {"seq": 2, "messages": [{"id": "x", "seq": 2}]}
    assert isinstance(refused, (asyncio.CancelledError, Conflict))
    there = not isinstance(first, ReadOnly) or not isinstance(second, asyncio.CancelledError)
    assert texts(store.sessions["a"]) == (["first", "x"] if there else ["first"])


@pytest.mark.parametrize("kind", ["change", "alone", "save"])
async def test_a_begun_job_that_is_cancelled_is_answered_as_done(
    service: Service, store: MemoryStore, peer: FakePeer, kind: str
) -> None:
    """However often it is cancelled: it is carried out, and its answer says so."""
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    gate = Gate()
    store.before_commit = store.before_save = gate

    async def by_itself() -> str:
        await gate()
        return "done"

    work = {"change": lambda: said(one, "second"), "alone": lambda: alone(one, by_itself), "save": one.save}[kind]
    [task] = later(work())
    await turns()
    assert gate.come == 1
    for _ in range(3):
        task.cancel()
        await turns(2)
    assert not task.done()
    gate.open()
    result = await in_time(task)
    store.before_commit = store.before_save = None
    if kind == "change":
        assert [message.seq for message in result] == [2] and texts(one.there) == ["first", "second"]
    elif kind == "alone":
        assert result == "done"
    else:
        assert result.local_id == "a" and not one.dirty


async def test_a_job_that_is_cancelled_before_it_began_is_not_there(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Of whatever kind, wherever it is in the queue; those around it are carried out."""
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    gate = store.before_commit = Gate()
    [first] = later(said(one, "second"))
    await turns()
    done: list[str] = []

    async def by_itself() -> None:
        done.append("alone")

    waiting = later(
        said(one, "x"),
        one.look(lambda _: done.append("look")),
        alone(one, by_itself),
        one.save(),
        said(one, "y"),
    )
    [last] = later(said(one, "third"))
    await turns()
    for task in waiting:
        task.cancel()
    gate.open()
    results = await outcomes(first, *waiting, last)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[1:-1]), results
    assert (texts(one.there), done, one.dirty) == (["first", "second", "third"], [], True)
    assert not one.busy


async def test_a_fault_after_a_commit_leaves_nobody_waiting(
    service: Service, store: MemoryStore, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing a change fails, which is a bug of ours: the caller is still answered, and the session continues."""
    await service.new(peer, session_id="a")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(service.catalog, "changed", broken)
    done = await outcomes(*later(service.append(peer, "a", _one("1")), service.append(peer, "a", _one("2"))))
    assert not any(isinstance(one, TimeoutError) for one in done), done
    monkeypatch.undo()
    assert (await in_time(service.append(peer, "a", _one("3"))))["seq"] == 3


# Saves, and the lane of the files


async def test_saves_go_on_beside_changes_and_a_job_that_runs_alone_waits_for_them(
    service: Service, store: MemoryStore, peer: FakePeer, other: FakePeer
) -> None:
    """While a file is written, appends are answered and looks see them; what runs alone begins when the file is written."""
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.open(other, "a")
    one = service.open_sessions.at("a")
    gate = store.before_save = Gate()
    begun: list[str] = []

    async def by_itself() -> None:
        begun.append("alone")

    [saving] = later(one.save())
    await turns()
    appending, looking, waiting = later(said(one, "second"), one.look(texts), alone(one, by_itself))
    await in_time(appending)
    assert await in_time(looking) == ["first", "second"]
    await turns()
    assert gate.come == 1 and not saving.done() and begun == []
    assert other.take() != [] and one.dirty
    gate.open()
    await in_time(asyncio.gather(saving, waiting))
    assert begun == ["alone"]
    assert [saved["sessionId"] for saved in other.take("session/saved")] == ["a"]
    assert one.dirty, "what came meanwhile is saved by the next one"
    store.before_save = None
    await in_time(one.save())
    assert not one.dirty and one.dirty_since is None


async def test_whoever_holds_the_files_does_not_keep_changes_waiting(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """A backup copies the files, and looks for outside edits continue: appends are answered meanwhile; saves and jobs that
    run alone wait.
    """
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    async with one.still():
        assert (await in_time(service.append(peer, "a", _one("second"))))["seq"] == 2
        looking, saving = later(one.look_outside(), one.save())
        await turns()
        assert not looking.done() and not saving.done()
        assert one.busy
    await in_time(asyncio.gather(looking, saving))
    assert not one.dirty and not one.busy


async def test_a_save_that_meets_an_outside_edit_merges_it_and_begins_again(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Clients that have the session open are told once to read it again; jobs that arrived meanwhile do not wait for ever."""
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    theirs = store.sessions["a"] = store.sessions["a"].snapshot()
    saving, appending = later(one.save(), said(one, "second"))
    await in_time(asyncio.gather(saving, appending))
    assert one.session in (theirs, store.sessions["a"])
    assert saving.result() is not None
    assert len(peer.take("session/reloaded")) <= 1


async def disk(path: Path) -> tuple[Service, House]:
    limits = Limits(settle_s=0.0)
    house = House(RealFileSystem(), str(path), limits=limits)
    store = (await house.open()).store
    return WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=limits), house


def edited(house: House, text: str) -> None:
    """Somebody else puts one line more into the session's file."""
    path = Path(house.store.file_path("a"))
    said = {"id": f"e-{text}", "role": "user", "content": text, "timestamp": T}
    path.write_text(path.read_text() + json.dumps(said) + "\n")


async def test_an_outside_edit_between_plan_and_commit(tmp_path: Path, peer: FakePeer) -> None:
    """Neither what was acknowledged nor what they wrote is lost, here or in the file, whoever finds the edit."""
    service, house = await disk(tmp_path)
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.save("a")
    one = service.open_sessions.at("a")
    stored: Any = one.stored
    commit = stored.commit
    written = iter(("theirs", "theirs too"))

    async def in_between(session: Session, changes: list[Change], on_durable: Any = None, **how: Any) -> None:
        edited(house, next(written))
        await commit(session, changes, on_durable)

    stored.commit = in_between
    assert (await service.append(peer, "a", _one("second")))["seq"] == 2
    await in_time(one.look_outside())
    assert sorted(texts(one.there)) == ["first", "second", "theirs"]
    await service.append(peer, "a", _one("third"))
    stored.commit = commit
    await in_time(service.save("a"))
    expected = ["first", "second", "theirs", "theirs too", "third"]
    assert sorted(texts(one.there)) == expected
    assert len(peer.take("session/reloaded")) == 2
    await service.close()
    assert sorted(texts((await house.store.load("a")).session)) == expected


async def test_a_session_whose_file_never_stands_still(tmp_path: Path, peer: FakePeer) -> None:
    """However often somebody else writes it: the save fails honestly in the end, and appends continue meanwhile; nothing is lost."""
    service, house = await disk(tmp_path)
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.save("a")
    await service.append(peer, "a", _one("second"))
    one = service.open_sessions.at("a")
    stored: Any = one.stored
    save, count = stored.save, iter(range(1000))

    async def restless(session: Session) -> Any:
        edited(house, f"theirs {next(count)}")
        return await save(session)

    stored.save = restless
    saving, appending = later(service.save("a"), service.append(peer, "a", _one("third")))
    assert (await in_time(appending))["seq"] >= 3
    with pytest.raises(Unavailable, match="constantly being written by another program"):
        await in_time(saving)
    assert one.dirty
    stored.save = save
    await in_time(service.save("a"))
    rounds = next(count)
    assert sorted(texts(one.there)) == sorted(["first", "second", "third", *(f"theirs {n}" for n in range(rounds))])
    await service.close()


async def test_a_session_that_vanishes_under_its_writer(service: Service, store: MemoryStore, peer: FakePeer) -> None:
    """Its file is removed: clients that have it open are told, and waiting requests get sessionNotFound; none waits for ever."""
    await service.new(peer, session_id="a", messages=_one("first"))
    one = service.open_sessions.at("a")
    store.edit("a", None)
    while service.open_sessions.peek("a") is not None:
        await turns(1)
    done = await outcomes(*later(*(service.append(peer, "a", _one(str(n))) for n in range(3))))
    assert all(isinstance(error, SessionNotFound) for error in done), done
    assert peer.take("session/deleted") == [{"sessionId": "a"}]
    assert one.session is None and "a" not in store.sessions


async def test_a_session_that_is_let_go_while_its_file_is_compared(
    service: Service, store: MemoryStore, peer: FakePeer
) -> None:
    """Opening a session compares its file; it is not released meanwhile, and the client that opens it gets changes."""
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.close_session(peer, "a")
    one = service.open_sessions.at("a")
    stored: Any = one.stored
    changed, tried = stored.changed, []

    async def slowly() -> bool:
        tried.append(service.open_sessions.let_go(one))
        return await changed()

    stored.changed = slowly
    await service.open(peer, "a")
    assert tried and service.open_sessions.at("a") is one
    await service.append(None, "a", _one("second"))
    assert [method for method, _ in peer.got if method == "session/changed"] == ["session/changed"]


# Two sessions at once


async def both(clock: ManualClock, moves: MoveGuard | None = None) -> tuple[Service, MemoryStore, MemoryStore]:
    here, there = MemoryStore(), MemoryStore("there")
    service = WireService(
        stores={"default": here, "there": there}, index=FakeIndex(), clock=clock, limits=Limits(), moves=moves
    )
    return service, here, there


async def test_moves_against_each_other_never_wait_for_each_other(clock: ManualClock, peer: FakePeer) -> None:
    """Two at once in opposite directions, with other work of both sessions around them: one of them comes first, everybody is
    answered, and the session is in one place.
    """
    for first in (0, 1):
        service, here, there = await both(clock)
        await service.new(peer, session_id="a", messages=_one("first"))
        ways = [("a", "there"), ("there/a", "default")]
        ways = ways[first:] + ways[:first]
        tasks = []
        for session_id, store in ways:
            tasks += later(
                service.append(peer, "a", _one("x")), service.append(peer, "there/a", _one("y")),
                service.move(peer, session_id, store), service.save("a"), service.open(peer, "there/a"),
            )  # fmt: skip
        done = await outcomes(*tasks)
        assert not any(isinstance(one, (TimeoutError, AssertionError)) for one in done), done
        assert len(here.sessions) + len(there.sessions) == 1
        await in_time(service.close())


async def test_a_turn_that_is_given_up_holds_nobody_up(service: Service, peer: FakePeer) -> None:
    """Whether it has come or not, and where whoever took it is cancelled."""
    await service.new(peer, session_id="a")
    one = service.open_sessions.at("a")
    for _ in range(2):
        turn = one.turn()
        turn.give_up()
        assert (await in_time(service.append(peer, "a", _one("x"))))["seq"] > 0
        turn = one.turn()
        async with turn:
            [appending] = later(service.append(peer, "a", _one("x")))
            await turns()
            assert not appending.done()
        await in_time(appending)
    assert not one.busy


async def test_a_move_that_is_cancelled_before_it_began_leaves_both_free(clock: ManualClock, peer: FakePeer) -> None:
    """It keeps neither its session nor the place that it would have gone to."""
    service, here, _ = await both(clock)
    await service.new(peer, session_id="a", messages=_one("first"))
    gate = here.before_commit = Gate()
    appending, moving = later(service.append(peer, "a", _one("second")), service.move(peer, "a", "there"))
    await turns()
    moving.cancel()
    gate.open()
    await in_time(appending)
    with pytest.raises(asyncio.CancelledError):
        await moving
    assert (await in_time(service.new(peer, session_id="a", store="there", name="N")))["sessionId"] == "there/a"
    assert (await in_time(service.append(peer, "a", _one("third"))))["seq"] == 3
    await service.close()


async def backing_up(moves: MoveGuard) -> None:
    async with moves.none():
        await asyncio.sleep(0)


async def freed(backup: asyncio.Future[Any], *tasks: asyncio.Future[Any]) -> list[Any]:
    """What became of them all, within a moment; where they wait for each other, the backup is given up, so that the test ends."""
    done, waiting = await asyncio.wait({backup, *tasks}, timeout=1)
    await asyncio.gather(*done, return_exceptions=True)
    if waiting:
        backup.cancel()
        done, _ = await asyncio.wait({backup, *tasks}, timeout=1)
        await asyncio.gather(*done, return_exceptions=True)
    return list(waiting)


async def test_a_move_a_delete_at_its_target_and_a_backup_do_not_wait_for_each_other(
    clock: ManualClock, peer: FakePeer
) -> None:
    """The delete stands before the move in the target's queue and begins only after the backup has asked for a moment without moves:
    all three come to an end.
    """
    moves = MoveGuard()
    service, _, there = await both(clock, moves)
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.new(peer, session_id="a", store="there", messages=_one("first"))
    gate = there.before_commit = Gate()
    tasks = later(
        service.append(peer, "there/a", _one("second")),
        service.delete("there/a"),
        service.move(peer, "a", "there"),
    )
    await turns()
    [backup] = later(backing_up(moves))
    await turns()
    gate.open()
    assert await freed(backup, *tasks) == []
    await in_time(service.close())


async def test_a_restore_what_it_waits_for_and_a_backup_do_not_wait_for_each_other(
    clock: ManualClock, peer: FakePeer
) -> None:
    """A restore waits for an earlier delete of the same client, and that begins only after the backup has asked for a moment without
    moves: all three come to an end.
    """
    moves = MoveGuard()
    service, here, _ = await both(clock, moves)
    await service.new(peer, session_id="a", messages=_one("first"))
    gate = here.before_commit = Gate()
    appending, deleting = later(service.append(peer, "a", _one("second")), service.delete("a"))

    async def after() -> None:
        await asyncio.wait({deleting})

    [restoring] = later(service.restore(peer, "b", after=after()))
    await turns()
    [backup] = later(backing_up(moves))
    await turns()
    gate.open()
    assert await freed(backup, appending, deleting, restoring) == []
    await in_time(service.close())


async def test_a_backup_that_looks_for_what_is_gone_does_not_wait_for_a_delete(
    clock: ManualClock, peer: FakePeer
) -> None:
    """A backup holds off all deletes, and looks at a session whose file was removed meanwhile. The client's own delete of it
    waits in the queue before that look: the backup gives the look up after a while and ends, then the delete goes through.
    """
    moves = MoveGuard()
    service, here, _ = await both(clock, moves)
    await service.new(peer, session_id="a", messages=_one("first"))
    await service.save("a")

    async def backup() -> None:
        async with moves.none():
            deleting.extend(later(service.delete("a")))
            await turns()
            del here.sessions["a"]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(service.open_sessions.look_outside(here, "a"), 0.05)

    deleting: list[asyncio.Future[Any]] = []
    [copying] = later(backup())
    await turns()
    assert await freed(copying, *deleting) == []
    assert await outcomes(copying, *deleting) == [None, None]
    assert service.open_sessions.peek("a") is None
    assert len(peer.take("session/deleted")) == 1
    await in_time(service.close())


def test_a_session_that_is_not_there(tmp_path: Path) -> None:
    """`there` says so in words, rather than None."""

    async def scenario() -> None:
        service, _ = await disk(tmp_path)
        one: OpenSession = service.open_sessions.at("a")
        with pytest.raises(SessionNotFound, match="the session 'a' no longer exists"):
            _ = one.there

    asyncio.run(scenario())
