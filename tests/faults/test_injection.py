"""Every kind of call fails, the Nth for rising N, in the real daemon under load. Whatever happens: no acknowledged message
is lost, doubled or reordered, only durable ones are acknowledged, and reading continues.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.injection import injected
from tests.faults.witness import Witness
from tests.home import Client
from tests.zygote import ForkedHome

FINAL = [("fdatasync", "error=EIO"), ("fdatasync", "error=ENOSPC"), ("fsync", "error=EIO")]
UNDONE = [
    ("write", "error=EIO"), ("write", "error=ENOSPC"), ("write", "error=EDQUOT"), ("write", "retval=0"), ("rename,renameat", "error=EIO"),
    ("rename,renameat", "error=ENOSPC"), ("unlink,unlinkat", "error=EIO"), ("ftruncate", "error=EIO"), ("mkdir,mkdirat", "error=ENOSPC"),
]  # fmt: skip
OFTEN = ("fdatasync", "fsync", "write")
SLOW = [
    ("fdatasync", "delay_enter=30000"),
    ("write", "delay_exit=20000"),
    ("rename,renameat,unlink,unlinkat", "delay_enter=30000"),
]


def traffic(client: Client, witnesses: list[Witness], rounds: int) -> None:
    """Appends to two sessions with saves, and a session that comes and goes. Errors must be of the disk's kinds."""
    for number in range(rounds):
        for witness in witnesses:
            witness.append(client, 900)
        if number % 3 == 1:
            may_fail(client, "session/save", sessionId=witnesses[0].session)
        if number % 3 == 2:
            may_fail(client, "session/truncate", sessionId="cut", afterSeq=0)
            may_fail(client, "session/new", sessionId=f"more-{number}", messages=[{"role": "user", "content": "x"}])
            may_fail(client, "session/delete", sessionId=f"more-{number}")


def may_fail(client: Client, method: str, **params: object) -> None:
    answer = client.answer(client.send(method, params))
    if "error" in answer:
        assert answer["error"]["data"]["kind"] in ("readOnly", "indeterminate", "sessionNotFound", "alreadyExists"), (
            answer
        )


def begun(home: ForkedHome) -> tuple[Client, list[Witness]]:
    client = home.client()
    witnesses = [Witness("a"), Witness("b")]
    for witness in witnesses:
        client.call("session/new", sessionId=witness.session, name="n")
        witness.append(client)
    client.call("session/new", sessionId="cut", messages=[{"role": "user", "content": "to be cut"}])
    client.call("session/save")
    return client, witnesses


def afterwards(home: ForkedHome, client: Client, witnesses: list[Witness], *, kill: bool) -> None:
    """Reading works; with a healthy disk the next daemon has everything, and carries on."""
    for witness in witnesses:
        witness.check(client)
    for _ in range(30):  # each waits up to a second for an index that is being rebuilt
        page = client.call("session/list")
        if not page.get("incomplete"):
            break
    assert page["sessions"]
    assert not page.get("incomplete")
    if kill:
        home.kill()
    else:
        home.stop()
    home.forget_clients()
    home.start()
    client = home.client()
    assert client.call("daemon/status")["readOnly"] is None
    for witness in witnesses:
        witness.check(client)
        assert witness.append(client)
    client.call("session/save")
    home.kill()
    home.start()
    for witness in witnesses:
        witness.check(home.client())


@pytest.mark.parametrize(
    ("call", "how", "when"),
    [(*one, when) for one in [*FINAL, *UNDONE] for when in (("1", "3", "6") if one[0] in OFTEN else ("1", "1+2"))],
)
def test_the_nth_call_fails(forked: ForkedHome, tmp_path: Path, call: str, how: str, when: str) -> None:
    """One call of its kind fails in each thread (of the rare ones also every other). All that is acknowledged then or
    later is true.
    """
    client, witnesses = begun(forked)
    assert forked.process is not None
    with injected(forked.process.pid, call, how, when=when, calls=tmp_path / "calls") as calls:
        traffic(client, witnesses, 9)
        happened = bool(calls.injected())
    if happened and call == "fdatasync":
        state = client.call("daemon/status")
        assert state["readOnly"] or any(store["problem"] for store in state["stores"]), (
            "a failed sync is never forgiven"
        )
    afterwards(forked, client, witnesses, kill=when != "1")
    assert happened, "the fault was put"


@pytest.mark.parametrize(("call", "how"), [*FINAL, *UNDONE], ids=lambda one: str(one).removeprefix("error="))
def test_every_call_fails_from_some_moment_on(forked: ForkedHome, tmp_path: Path, call: str, how: str) -> None:
    """A disk that keeps failing: the same."""
    client, witnesses = begun(forked)
    assert forked.process is not None
    with injected(forked.process.pid, call, how, when="4+", calls=tmp_path / "calls"):
        traffic(client, witnesses, 6)
        for witness in witnesses:
            witness.check(client)
    afterwards(forked, client, witnesses, kill=True)


@pytest.mark.parametrize(("call", "how"), SLOW, ids=str)
def test_a_slow_disk_only_costs_time(forked: ForkedHome, tmp_path: Path, call: str, how: str) -> None:
    """Delays in every call: everything is acknowledged, and a kill in the middle loses nothing of it."""
    client, witnesses = begun(forked)
    assert forked.process is not None
    with injected(forked.process.pid, call, how, when="1+", calls=tmp_path / "calls") as calls:
        traffic(client, witnesses, 4)
        assert calls.injected()
    assert not any(witness.errors for witness in witnesses)
    afterwards(forked, client, witnesses, kill=True)


def test_the_first_failed_sync_of_the_journal_is_said_everywhere(forked: ForkedHome, tmp_path: Path) -> None:
    """To the one who wrote (indeterminate, then readOnly), to every other client, in `status`, in the log; it lasts although
    the disk works again; a restart ends it.
    """
    client, (witness, _) = begun(forked)
    bystander = forked.client()
    assert bystander.call("session/read", sessionId="a")
    assert forked.process is not None
    journal = sorted((forked.path / "data" / "journal").glob("*"))
    with injected(forked.process.pid, "fdatasync", "error=EIO", paths=journal, calls=tmp_path / "calls"):
        assert not witness.append(client)
    assert witness.errors[-1]["data"]["kind"] == "indeterminate"
    assert not witness.append(client)
    assert (witness.errors[-1]["code"], witness.errors[-1]["data"]["reason"]) == (-31005, "Input/output error")
    said = bystander.notification("window/logMessage")
    assert said["type"] == 1
    assert "read-only" in said["message"]
    assert "Input/output error" in said["message"]
    state = bystander.call("daemon/status")["readOnly"]
    assert state["final"] is True
    assert state["reason"] == "Input/output error"
    for method in ("session/clear", "session/delete", "session/fork"):
        assert client.fails(method, sessionId="a")["data"]["kind"] == "readOnly"
    forked.stop()
    assert "read-only" in (forked.path / "log" / "sessiond.log").read_text()
    forked.forget_clients()
    forked.start()
    witness.check(forked.client())
    assert witness.append(forked.client())
