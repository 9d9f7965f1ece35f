"""Words that waited while another machine deleted their session come back with it, whoever restores it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from sessiond.errors import SessiondError
from sessiond.hub.port import Ordered
from sessiond.shared.ledger import Ledger
from sessiond.shared.waiting import Waiting
from tests.shared.conftest import Machines
from tests.shared.machines import STORE, Machine, until, until_same
from tests.shared.test_sharing import shared_session


def row(number: int, kind: str) -> Ordered:
    return Ordered(number, "ab" * 16, number + 1, kind, None, "Ada", None, 0, b"\0{}")


def deleted_meanwhile(a: Machine, b: Machine) -> str:
    """A session that `a` has deleted while `b` had two words for it that waited. It is in the trash of both."""
    session = shared_session(a, b)
    b.link.cut()
    b.until_offline()
    for text in ("waits", "waits too"):
        assert b.append(session, text)["provisional"]
    a.call("session/delete", sessionId=session)
    b.link.heal()
    until(lambda: session not in b.sessions(), b.log)
    b.until_shared()
    return session


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("restorer", ["the one with the words", "the other"])
def test_words_that_waited_come_back_with_their_session(machines: Machines, restorer: str, killed: bool) -> None:
    a, b = machines(2)
    session = deleted_meanwhile(a, b)
    if killed:
        b.kill()
        b.home.start()
        b.until_shared()
    (b if restorer == "the one with the words" else a).call("session/restore", sessionId=session)
    until(lambda: session in a.sessions() and a.texts(session) == ["first", "waits", "waits too"], a.log)
    b.until_shared()
    until_same([a, b])


def test_what_another_machine_restored_is_not_in_the_trash_here(machines: Machines) -> None:
    """Emptying it there would erase the session for everybody."""
    a, b = machines(2)
    session = shared_session(a, b)
    trash = a.home.path / "data" / "trash" / STORE
    deleted = {"store": STORE, "deleted": True}
    a.call("session/delete", sessionId=session)
    assert [one["sessionId"] for one in a.call("session/list", filter=deleted)["sessions"]] == [session]
    assert list(trash.iterdir())
    until(lambda: session not in b.sessions(), b.log)
    b.call("session/restore", sessionId=session)
    until(lambda: session in a.sessions(), a.log)
    assert a.call("session/list", filter=deleted)["sessions"] == []
    assert a.texts(session) == ["first"]
    assert list(trash.iterdir()) == []


def test_what_was_restored_and_deleted_again_comes_back_again(machines: Machines) -> None:
    """Before the words could be shared: the machine that has them cannot reach the hub meanwhile."""
    a, b = machines(2)
    session = deleted_meanwhile(a, b)
    b.link.cut()
    b.until_offline()
    a.call("session/restore", sessionId=session)
    a.call("session/delete", sessionId=session)
    b.link.heal()
    b.until_shared()
    assert session not in b.sessions()
    a.call("session/restore", sessionId=session)
    until(lambda: session in a.sessions() and a.texts(session) == ["first", "waits", "waits too"], a.log)
    until_same([a, b])


def test_words_of_a_session_that_is_erased_do_not_come_back(machines: Machines) -> None:
    """Whoever empties the trash erases it on the hub and on all machines."""
    a, b = machines(2)
    session = deleted_meanwhile(a, b)
    a.call("session/delete", sessionId=session, permanent=True)
    until(lambda: not said_anywhere(b), b.log)
    assert not said_anywhere(a)
    for machine in (a, b):
        assert machine.client.fails("session/restore", sessionId=session)["data"]["kind"] == "sessionNotFound"
    until_same([a, b])


def said_anywhere(machine: Machine) -> bool:
    """Whether the ledger or the trash of a machine has words of it."""
    folder = machine.home.path / "data"
    files = [*(folder / "shared").glob("*"), *(folder / "trash").rglob("*")]
    return any(b"waits" in path.read_bytes() for path in files if path.is_file())


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("method", ["session/truncate", "session/clear"])
def test_what_was_cut_off_comes_back_as_a_session(machines: Machines, method: str, offline: bool) -> None:
    """Only the machine that cut has it, in its trash; restored, everybody has it. That needs no agreement."""
    a, b = machines(2)
    session = shared_session(a, b, texts=("first", "second"))
    a.call(method, sessionId=session, **({"afterSeq": 1} if method == "session/truncate" else {}))
    [cut] = [one["sessionId"] for one in a.call("session/list", filter={"deleted": True})["sessions"]]
    if offline:
        a.link.cut()
        a.until_offline()
    restored = a.call("session/restore", sessionId=cut)["session"]
    assert (restored["sessionId"], restored["parent"]) == (cut, {"sessionId": session, "seq": 2})
    a.link.heal()
    until(lambda: cut in b.sessions(), b.log)
    until_same([a, b])
    assert b.texts(cut) == ["first", "second"]
    assert a.call("session/list", filter={"deleted": True})["sessions"] == []


def test_what_was_cut_off_is_erased_with_its_session(machines: Machines) -> None:
    """Alone it cannot be: the hub and the other machines keep it, so it stays in the trash."""
    a, b = machines(2)
    session = shared_session(a, b, texts=("waits", "waits too"))
    a.call("session/truncate", sessionId=session, afterSeq=1)
    [cut] = [one["sessionId"] for one in a.call("session/list", filter={"deleted": True})["sessions"]]
    refused = a.client.fails("session/delete", sessionId=cut, permanent=True)
    assert (refused["data"]["kind"], session in refused["data"]["hint"]) == ("invalidParams", True)
    assert [one["sessionId"] for one in a.call("session/list", filter={"deleted": True})["sessions"]] == [cut]
    a.call("session/delete", sessionId=session, permanent=True)
    assert a.call("session/list", filter={"deleted": True})["sessions"] == []
    until(lambda: not said_anywhere(a) and not said_anywhere(b), b.log)


async def test_a_ledger_keeps_what_was_parked_through_its_lives(tmp_path: Path) -> None:
    """Parked operations start to wait when the session is restored, and then get a name from the current life."""
    waiting = [Waiting("appended", f"m{number}", b"\0{}", [("r", number)]) for number in (1, 2)]
    path = str(tmp_path / "ledger")
    ledger = Ledger(path)
    await ledger.open()
    ledger.confirm("s", [row(0, "created"), row(1, "trashed")])
    queued = await ledger.queue("s", waiting)
    await ledger.park("s", queued)
    assert (ledger.waits, await ledger.waiting("s")) == ({}, [])
    await ledger.close()
    again = Ledger(path)
    await again.open()
    assert (again.waits, again.parked) == ({}, {"s": 2})
    again.confirm("s", [row(2, "restored")])
    assert (again.waits, again.parked) == ({"s": 2}, {})
    found = await again.waiting("s")
    assert [(one.id, one.names[0]) for one in found] == [("m1", ("r", 1)), ("m2", ("r", 2))]
    assert [one.names[-1][0] for one in found] == [again.replica] * 2
    assert found[0].names[-1][1] < found[1].names[-1][1]
    await again.close()


async def test_what_is_parked_too_late_waits(tmp_path: Path) -> None:
    """The session was restored while its files were moved into the trash."""
    ledger = Ledger(str(tmp_path / "ledger"))
    await ledger.open()
    queued = await ledger.queue("s", [Waiting("appended", "m", b"\0{}", [("r", 1)])])
    ledger.confirm("s", [row(0, "created"), row(1, "trashed"), row(2, "restored")])
    await ledger.park("s", queued)
    assert [one.id for one in await ledger.waiting("s")] == ["m"]
    assert (ledger.waits, ledger.parked) == ({"s": 1}, {})
    await ledger.close()


async def test_a_version_that_parks_nothing_heard_that_it_was_restored(tmp_path: Path) -> None:
    """The next start lets the words wait, with a name of this life."""
    path = tmp_path / "ledger"
    ledger = Ledger(str(path))
    await ledger.open()
    queued = await ledger.queue("s", [Waiting("appended", "m", b"\0{}", [("r", 1)])])
    ledger.confirm("s", [row(0, "created"), row(1, "trashed")])
    await ledger.park("s", queued)
    await ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE head SET trashed = 0")
    again = Ledger(str(path))
    await again.open()
    assert (again.waits, again.parked) == ({"s": 1}, {})
    [one] = await again.waiting("s")
    assert (one.names[0], one.names[-1][0]) == (("r", 1), again.replica)
    await again.close()


async def test_a_trash_that_could_not_be_emptied_keeps_the_words_apart(tmp_path: Path) -> None:
    """Those of an earlier deletion do not take the place of later ones."""
    ledger = Ledger(str(tmp_path / "ledger"))
    await ledger.open()
    old = await ledger.queue("s", [Waiting("appended", f"old{n}", b"\0{}", [("r", n)]) for n in (1, 2)])
    ledger.confirm("s", [row(0, "created"), row(1, "trashed")])
    await ledger.park("s", old)
    ledger._db.execute("CREATE TRIGGER full BEFORE DELETE ON parked BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(SessiondError):
        await ledger.forget_parked("s")
    ledger._db.execute("DROP TRIGGER full")
    await ledger.try_again()
    ledger.confirm("s", [row(2, "restored")])
    assert [one.id for one in await ledger.waiting("s")] == ["old1", "old2"]
    assert (ledger.waits, ledger.parked) == ({"s": 2}, {})
    await ledger.close()
