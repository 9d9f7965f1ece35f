"""Several machines write one session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.shared.conftest import Machines
from tests.shared.machines import Machine, until, until_same


def test_what_one_machine_appends_the_other_has(machines: Machines) -> None:
    """At once where it is open, as a change; and in lists, files and exports."""
    a, b = machines(2)
    session = a.call("session/new", store="team", name="one")["session"]["sessionId"]
    assert session.startswith("team/session-")
    assert a.append(session, "hello")["seq"] == 1
    until(lambda: b.sessions().get(session) == 1, b.log)
    opened = b.call("session/open", sessionId=session)
    assert opened["session"]["name"] == "one"
    a.append(session, "again")
    changed = b.client.notification("session/changed")
    assert (changed["seq"], changed["changes"][0]["messages"][0]["content"]) == (2, "again")
    assert b.append(session, "from b")["seq"] == 3
    until(lambda: a.texts(session) == ["hello", "again", "from b"], a.log)
    until_same([a, b])


def shared_session(a: Machine, *others: Machine, texts: tuple[str, ...] = ("first",)) -> str:
    """A session that all machines have."""
    session = str(a.call("session/new", store="team", name="one")["session"]["sessionId"])
    for text in texts:
        a.append(session, text)
    for one in others:
        until(lambda one=one: one.sessions().get(session) == len(texts), one.log)
        assert one.texts(session) == list(texts)  # not only listed
    return session


def test_appends_wait_while_the_link_is_cut(machines: Machines) -> None:
    """They are acknowledged as provisional, keep their ids, and come after what others wrote; whoever has the session open is
    told that it was synced.
    """
    a, b = machines(2)
    session = shared_session(a, b)
    b.call("session/open", sessionId=session)
    b.link.cut()
    b.until_offline()
    answer = b.append(session, "b1")
    assert (answer["provisional"], answer["seq"]) == (True, 2)
    assert b.append(session, "b2")["provisional"]
    assert b.call("session/read", sessionId=session)["seq"] == 3
    listed = b.call("session/open", sessionId=session)["session"]
    assert listed["provisional"] == 2
    status = b.hub()
    assert (status["state"], status["pending"]) == ("offline", 2)
    assert status["since"] and status["problem"]
    assert "provisional" not in a.append(session, "a1")
    b.link.heal()
    told = b.client.notification("session/reloaded")
    assert told["reason"] == "synced"
    b.until_shared()
    until_same([a, b])
    assert a.texts(session) == ["first", "a1", "b1", "b2"]
    assert "provisional" not in b.call("session/open", sessionId=session)["session"]


def test_what_needs_an_agreement_is_refused_while_the_link_is_cut(machines: Machines) -> None:
    """`unavailable`, with a hint, and nothing is changed; reading goes on."""
    a, b = machines(2)
    session = shared_session(a, b)
    gone = shared_session(b, texts=("x",))
    b.call("session/delete", sessionId=gone)
    b.link.cut()
    b.until_offline()
    message = {"role": "user", "content": "x"}
    refused = [
        b.client.fails("session/append", sessionId=session, messages=[message], expectedSeq=1),
        b.client.fails("session/truncate", sessionId=session, afterSeq=0),
        b.client.fails("session/clear", sessionId=session),
        b.client.fails("session/delete", sessionId=session),
        b.client.fails("session/restore", sessionId=gone),
        b.client.fails("session/update", sessionId=session, name="other", expectedSeq=1),
    ]
    for error in refused:
        assert error["data"]["kind"] == "unavailable", error
        assert error["data"]["hint"]
    assert b.texts(session) == ["first"]
    b.link.heal()
    b.until_shared()
    until_same([a, b])


def test_a_session_begun_offline_is_shared_later(machines: Machines) -> None:
    """With all that was done to it; a daemon that is killed meanwhile loses nothing."""
    a, b = machines(2)
    b.link.cut()
    b.until_offline()
    session = str(b.call("session/new", store="team", name="train")["session"]["sessionId"])
    b.append(session, "one")
    b.call("note/append", sessionId=session, heading="h", content="c")
    b.call("state/set", sessionId=session, values={"k": 1})
    b.kill()
    b.home.start()
    assert b.texts(session) == ["one"]
    b.append(session, "two")
    assert a.sessions() == {}
    b.link.heal()
    b.until_shared()
    until_same([a, b])
    assert a.texts(session) == ["one", "two"]
    assert a.call("state/get", sessionId=session)["values"] == {"k": 1}


def test_an_expected_seq_is_agreed_on_by_all(machines: Machines) -> None:
    """Two machines that expect the same seq: one of them gets a conflict with the seq that there is now."""
    a, b = machines(2)
    session = shared_session(a, b)
    for seq in range(1, 30):
        asked = [
            (one, one.client.send("session/append", {"sessionId": session, "messages": [{"role": "user", "content": f"{seq}"}], "expectedSeq": seq}))
            for one in (a, b)
        ]  # fmt: skip
        answers = [one.client.answer(number) for one, number in asked]
        assert sorted("result" in answer for answer in answers) == [False, True], answers
        [error] = [answer["error"] for answer in answers if "error" in answer]
        assert (error["data"]["kind"], error["data"]["seq"]) == ("conflict", seq + 1)
        until(lambda seq=seq: a.sessions()[session] == b.sessions()[session] == seq + 1)
    until_same([a, b])


def test_a_half_open_link_makes_nobody_wait_for_ever(machines: Machines) -> None:
    """An append is acknowledged within seconds, as provisional, and is on the hub once when the link is back."""
    a, b = machines(2)
    session = shared_session(a, b)
    b.link.silence()
    assert b.append(session, "b1")["provisional"]
    assert b.append(session, "b2")["provisional"]
    assert b.texts(session) == ["first", "b1", "b2"]
    a.append(session, "a1")
    b.link.heal()
    b.until_shared()
    until_same([a, b])
    assert a.texts(session) == ["first", "a1", "b1", "b2"]


def test_cuts_and_deletes_are_everywhere(machines: Machines) -> None:
    """Truncate, clear, delete and restore; a restored session has everything that it had."""
    a, b = machines(2)
    session = shared_session(a, b, texts=("1", "2", "3"))
    b.call("session/open", sessionId=session)
    a.call("session/truncate", sessionId=session, afterSeq=2)
    assert b.client.notification("session/reloaded")["session"]["messageCount"] == 2
    until_same([a, b])
    assert b.append(session, "4")["seq"] == 5
    a.call("session/delete", sessionId=session)
    assert b.client.notification("session/deleted")["sessionId"] == session
    until(lambda: session not in b.sessions())
    b.call("session/restore", sessionId=session)
    until(lambda: session in a.sessions(), a.log)
    assert a.texts(session) == ["1", "2", "4"]
    until_same([a, b])
    b.call("session/clear", sessionId=session)
    until(lambda: a.texts(session) == [])
    until_same([a, b])


def test_a_stream_runs_on_the_other_machine(machines: Machines) -> None:
    """Its pieces come as they are written, and loading it elsewhere does not interrupt it; the death of its writer does."""
    a, b = machines(2)
    session = shared_session(a, b)
    a.append(session, "ask")
    message = {"role": "assistant", "content": "", "id": "s1", "status": "streaming"}
    a.call("session/append", sessionId=session, messages=[message])
    for piece in "abc":
        a.call("session/extend", sessionId=session, messageId="s1", text=piece)
    until(lambda: b.texts(session)[-1:] == ["abc"], b.log)
    b.kill()
    b.home.start()
    assert b.call("session/open", sessionId=session)["messages"][-1]["status"] == "streaming"
    a.call("session/extend", sessionId=session, messageId="s1", text="d")
    a.kill()
    a.home.start()
    assert a.call("session/open", sessionId=session)["messages"][-1]["status"] == "interrupted"
    until_same([a, b])
    assert b.texts(session)[-1] == "abcd"


def test_whole_sessions_go_in_and_out(machines: Machines) -> None:
    """Moves, forks and imports: the other machine has the same bytes."""
    a, b = machines(2)
    own = str(a.call("session/new", name="own")["session"]["sessionId"])
    for text in ("1", "2"):
        a.append(own, text)
    a.call("state/set", sessionId=own, values={"k": [1]})
    a.call("note/append", sessionId=own, heading="h", content="c")
    a.call("session/update", sessionId=own, tags=["t"])
    moved = a.call("session/move", sessionId=own, store="team")["session"]["sessionId"]
    until(lambda: moved in b.sessions(), b.log)
    assert b.texts(moved) == ["1", "2"]
    fork = b.call("session/fork", sessionId=moved, atSeq=1)["session"]["sessionId"]
    until(lambda: fork in a.sessions(), a.log)
    until_same([a, b])
    back = b.call("session/move", sessionId=moved, store="default")["session"]["sessionId"]
    assert b.texts(back) == ["1", "2"]
    until(lambda: moved not in a.sessions())
    until_same([a, b])


def said(path: Path) -> list[dict[str, Any]] | None:
    """What a session's file says. Not its bytes: a file that was appended to says the same in another order than one written anew."""
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    except (FileNotFoundError, ValueError):  # it is gone, or only begun
        return None
    messages = [line for line in lines if "change" not in line]
    fields = {name: value for line in lines for name, value in line.get("fields", {}).items()}
    return [*messages, fields]


def test_an_edited_replica_is_written_again(machines: Machines) -> None:
    """The hub decides what a session is. The edit is kept in the trash's folder, whether a daemon saw it or not."""
    a, b = machines(2)
    session = shared_session(a, b)
    path = Path(b.call("session/open", sessionId=session)["session"]["path"])
    b.call("session/save", sessionId=session)
    before = path.read_bytes()
    told = said(path)
    path.write_bytes(before.replace(b"first", b"FIRST"))
    until(lambda: said(path) == told, b.log)
    assert b.texts(session) == ["first"]
    b.kill()
    path.write_bytes(before[:-20])
    b.home.start()
    assert b.texts(session) == ["first"]
    until_same([a, b])
    kept = [one for one in (b.home.path / "data" / "trash" / "team").rglob("*") if one.is_file()]
    assert any(b"FIRST" in one.read_bytes() for one in kept)
