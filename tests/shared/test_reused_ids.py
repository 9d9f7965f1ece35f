"""The id of a message that was cut off is free again, in a shared store as in any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.hub.bodies import pack_json, unpack_json
from sessiond.hub.port import Ordered
from sessiond.model.session import Session
from sessiond.shared import ids
from sessiond.shared.fold import apply
from sessiond.shared.waiting import Waiting
from tests.shared.conftest import Machines
from tests.shared.machines import Machine, until, until_same
from tests.shared.test_sharing import shared_session


def say(machine: Machine, session: str, text: str, message_id: str = "again") -> dict[str, Any]:
    message = {"role": "user", "content": text, "id": message_id}
    answer: dict[str, Any] = machine.call("session/append", sessionId=session, messages=[message])
    return answer


@pytest.fixture
def cut(machines: Machines) -> tuple[Machine, Machine, str]:
    """Two machines with a session in which the message `again` was said and cut off."""
    a, b = machines(2)
    session = shared_session(a, b)
    say(a, session, "then")
    a.call("session/truncate", sessionId=session, afterSeq=1)
    until(lambda: b.sessions().get(session) == 3, b.log)
    return a, b, session


@pytest.mark.parametrize("text", ["then", "now"])
def test_an_id_that_was_cut_off_is_used_again(cut: tuple[Machine, Machine, str], text: str) -> None:
    """With the same words or others; a retry adds nothing; and once more after another cut."""
    a, b, session = cut
    for seq in (4, 6):
        assert say(b, session, text)["seq"] == seq
        assert say(b, session, text)["seq"] == seq
        until(lambda: a.texts(session) == ["first", text], a.log)
        until_same([a, b])
        a.call("session/truncate", sessionId=session, afterSeq=1)
        until(lambda seq=seq: b.sessions()[session] == seq + 1, b.log)


@pytest.mark.parametrize("text", ["then", "now"])
def test_an_id_that_was_cut_off_is_used_again_offline(cut: tuple[Machine, Machine, str], text: str) -> None:
    """What was acknowledged is not taken for a retry of what was cut off."""
    a, b, session = cut
    b.link.cut()
    b.until_offline()
    assert say(b, session, text)["provisional"]
    b.link.heal()
    b.until_shared()
    until(lambda: a.texts(session) == ["first", text], a.log)
    until_same([a, b])


def test_two_machines_use_it_again(cut: tuple[Machine, Machine, str]) -> None:
    """The one that comes later keeps its words under another id."""
    a, b, session = cut
    b.link.cut()
    b.until_offline()
    say(b, session, "from b")
    say(a, session, "from a")
    b.link.heal()
    b.until_shared()
    until(lambda: a.texts(session) == ["first", "from a", "from b"], a.log)
    until_same([a, b])


def test_an_import_completes_what_it_brought_into_a_shared_store(machines: Machines, tmp_path: Path) -> None:
    """A tool writes its last message again when it is complete, so the import rewrites it under its id."""
    a, b = machines(2)
    source = tmp_path / "chats" / "session-1.json"
    source.parent.mkdir()
    for ending in ("", ", and done", ", and done again"):
        said = [("1", "user", "a question"), ("2", "gemini", f"an answer{ending}")]
        at = "2026-01-01T00:00:00.000Z"
        messages = [{"id": one, "timestamp": at, "type": kind, "content": text} for one, kind, text in said]
        whole = {"sessionId": "s", "projectHash": "x", "startTime": at, "lastUpdated": at, "messages": messages}
        source.write_text(json.dumps(whole))
        [imported] = a.call("session/import", path=str(source), store="team")["sessions"]
        session = imported["sessionId"]
        assert a.texts(session) == ["a question", f"an answer{ending}"]
        until(lambda: session in b.sessions(), b.log)  # noqa: B023
        until_same([a, b])


# What waits, and what others do meanwhile


def appended(number: int, operation_id: str, body: bytes) -> Ordered:
    return Ordered(number, "ab" * 16, number, "appended", operation_id, "Ada", None, 0, body)


def body(text: str, **more: str) -> bytes:
    wire = {"role": "user", "content": text, "timestamp": "2026-01-01T00:00:00.000Z", **more}
    return pack_json({"at": "2026-01-01T00:00:00.000Z", "messages": [wire]})


def test_nothing_that_waits_is_lost_whoever_says_it_first() -> None:
    """One has an id of its own already, because its message was cut off, and then another machine makes that message."""
    at = "2026-01-01T00:00:00.000Z"
    waiting = [Waiting("appended", "m", body("mine"), [("cd" * 16, 1)])]
    rows = [appended(1, "m", body("mine"))]
    empty = Session("s", at)
    [kept], dropped, changed = ids.with_free_ids(waiting, rows, empty)
    assert (kept.id, dropped, changed) == ("m~1", [], [kept])
    assert unpack_json(kept.body)["messages"][0]["id"] == "m"
    assert not ids.clash([kept], empty)
    theirs = empty.after([])
    apply(theirs, [appended(1, "m~2", body("theirs", id="m"))])
    assert ids.clash([kept], theirs)
    [last], dropped, _ = ids.with_free_ids([kept], [*rows, appended(2, "m~2", body("theirs", id="m"))], theirs)
    assert (last.id, dropped) == ("m-cdcdcdcd", [])
    assert not ids.clash([last], theirs)
    apply(theirs, [last.ordered(2, "Bob")])
    assert [message.content for message in theirs.messages()] == ["theirs", "mine"]
