"""Every message of a shared store says which member wrote it, as the hub knows it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sessiond.hub.keys import new_key
from tests.shared.conftest import Machines
from tests.shared.machines import Machine, until, until_same


def messages(machine: Machine, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.call("session/read", sessionId=session, last=1000)["messages"]
    return found


def authors(machine: Machine, session: str) -> list[Any]:
    return [one.get("author") for one in messages(machine, session)]


def new(machine: Machine, **more: Any) -> str:
    return str(machine.call("session/new", store="team", **more)["session"]["sessionId"])


@pytest.mark.parametrize("sealed", [False, True])
def test_a_message_has_the_name_of_its_member(machines: Machines, tmp_path: Path, sealed: bool) -> None:
    """In reads, changes, exports and files, on both machines; a name that a client sends is replaced, and a retry is one."""
    key = tmp_path / "team.key"
    key.write_text(new_key().line + "\n")
    key.chmod(0o600)
    a, b = machines(2, f'key_file = "{key}"' if sealed else "", sealed=sealed)
    session = new(a, messages=[{"role": "user", "content": "first", "author": "Eve"}])
    until(lambda: session in b.sessions(), b.log)
    assert authors(b, session) == ["Ada"]
    b.call("session/open", sessionId=session)
    claimed = {"role": "user", "content": "mine", "id": "i2", "author": "Bob"}
    for _ in range(2):
        answer = a.call("session/append", sessionId=session, messages=[claimed])
        assert [one["seq"] for one in answer["messages"]] == [2]
    [told] = b.client.notification("session/changed")["changes"][0]["messages"]
    assert told["author"] == "Ada"
    b.append(session, "theirs")
    until(lambda: authors(a, session) == ["Ada", "Ada", "Bob"], a.log)
    until_same([a, b])
    lines = [json.loads(line) for line in a.export(session).splitlines()]
    assert [one["author"] for one in lines if "content" in one] == ["Ada", "Ada", "Bob"]
    saved = Path(b.call("session/save", sessionId=session)["saved"][0]["path"])
    assert saved.read_text().count('"author":"Ada"') == 2


def test_what_waits_has_its_author_already(machines: Machines) -> None:
    """While the hub is away and after a restart without it, and the hub agrees: nobody has to read anything again."""
    a, b = machines(2)
    session = new(a)
    a.until_shared()
    b.until_shared()
    b.link.cut()
    b.until_offline()
    other = new(b)
    b.append(other, "one")
    b.kill()
    b.home.start()
    b.append(other, "two")
    assert authors(b, other) == ["Bob", "Bob"]
    b.call("session/open", sessionId=other)
    b.link.heal()
    b.until_shared()
    until_same([a, b])
    assert authors(a, other) == authors(b, other) == ["Bob", "Bob"]
    assert "session/reloaded" not in [method for method, _ in b.client.heard_by_now()]
    assert session in b.sessions()


def test_a_machine_that_never_reached_its_hub_learns_its_name(machines: Machines) -> None:
    """What it appended before has no author at first. Then it has the one that the hub knows, and those who have it open are told."""
    a, b = machines(2)
    b.until_shared()
    b.link.cut()
    b.kill()
    with sqlite3.connect(b.home.path / "data" / "shared" / "team.ledger") as ledger:
        ledger.execute("DELETE FROM member")
    ledger.close()
    b.home.start()
    session = new(b)
    b.append(session, "one")
    b.append(session, "two")
    assert authors(b, session) == [None, None]
    b.call("session/open", sessionId=session)
    b.link.heal()
    b.until_shared()
    assert b.client.notification("session/reloaded")["reason"] == "synced"
    assert authors(b, session) == ["Bob", "Bob"]
    until_same([a, b])


def test_a_copy_is_said_by_who_made_it_and_remembers_who_said_it(machines: Machines) -> None:
    """A fork, a move in and a move out. In a store of one's own, `author` is like any other key."""
    a, b = machines(2)
    session = new(a)
    a.append(session, "from ada")
    until(lambda: b.sessions().get(session) == 1, b.log)
    b.append(session, "from bob")
    fork = b.call("session/fork", sessionId=session)["session"]["sessionId"]
    assert authors(b, fork) == ["Bob", "Bob"]
    assert [one.get("metadata") for one in messages(b, fork)] == [{"author": "Ada"}, None]
    until(lambda: fork in a.sessions(), a.log)
    out = a.call("session/move", sessionId=fork, store="default")["session"]["sessionId"]
    assert authors(a, out) == ["Bob", "Bob"]
    own = a.call("session/new")["session"]["sessionId"]
    claims = ["Bob", {"any": 1}, "Ada"]
    said = [{"role": "user", "content": "x", "author": one} for one in claims]
    a.call("session/append", sessionId=own, messages=said)
    assert authors(a, own) == claims
    moved = a.call("session/move", sessionId=own, store="team")["session"]["sessionId"]
    assert authors(a, moved) == ["Ada", "Ada", "Ada"]
    assert [one.get("metadata") for one in messages(a, moved)] == [{"author": "Bob"}, {"author": {"any": 1}}, None]
    until(lambda: moved in b.sessions(), b.log)
    until_same([a, b])


def test_an_import_finds_its_own_messages_again(machines: Machines, tmp_path: Path) -> None:
    """They have an author that their source does not know, and are the same messages all the same: even if nobody remembers what
    the source said last time.
    """
    a, b = machines(2)
    a.until_shared()
    said = [{"id": "q", "role": "user", "content": "question"}, {"id": "a", "role": "assistant", "content": "answer"}]
    source = tmp_path / "said.json"
    source.write_text(json.dumps(said))
    [made] = a.call("session/import", path=str(source), store="team", format="messages")["sessions"]
    session = made["sessionId"]
    assert authors(a, session) == ["Ada", "Ada"]
    a.kill()
    for file in (a.home.path / "data").glob("imports.db*"):
        file.unlink()
    a.home.start()
    a.until_shared()
    a.call("session/import", path=str(source), store="team", format="messages")
    assert a.sessions()[session] == made["seq"]
    said.append({"id": "t", "role": "user", "content": "thanks"})
    source.write_text(json.dumps(said))
    a.call("session/import", path=str(source), store="team", format="messages")
    assert a.texts(session) == ["question", "answer", "thanks"]
    assert authors(a, session) == ["Ada", "Ada", "Ada"]
    until(lambda: session in b.sessions(), b.log)
    until_same([a, b])
