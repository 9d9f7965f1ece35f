"""Replies that stream into a shared session: few operations on the hub, and no acknowledged word lost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sessiond.limits import HUB_GATHER_S, HUB_NEWS_S
from tests.hub.postgres import Server
from tests.shared.conftest import Machines
from tests.shared.machines import Machine, until, until_same
from tests.shared.test_sharing import shared_session

PIECES = 2000


def begin(machine: Machine, session: str, message_id: str = "s1") -> None:
    message = {"role": "assistant", "content": "", "id": message_id, "status": "streaming"}
    machine.call("session/append", sessionId=session, messages=[message])


def extend(machine: Machine, session: str, text: str, message_id: str = "s1", **more: Any) -> int:
    params = {"sessionId": session, "messageId": message_id, "text": text, **more}
    return int(machine.client.call("session/extend", **params)["seq"])


def pieces(count: int, mark: str = "w") -> list[str]:
    return [f"{mark}{number} " for number in range(count)]


def extends_on_hub(server: Server, machine: Machine) -> int:
    return int(server.sql("SELECT count(*) FROM sessiond.operations WHERE kind = 2", machine.database))


def test_a_reply_costs_tens_of_operations_and_others_see_it_run(machines: Machines, hub_server: Server) -> None:
    """Each piece of 2,000 is acknowledged; the hub gets one operation for each tenth of a second, at most; the other machine
    hears of the text long before the end.
    """
    a, b = machines(2)
    session = shared_session(a, b)
    begin(a, session)
    until(lambda: b.texts(session)[-1:] == [""], b.log)
    b.call("session/open", sessionId=session)
    words = pieces(PIECES)
    begun = time.monotonic()
    for piece in words[: PIECES // 2]:
        extend(a, session, piece)
    heard = ""
    while len(heard) < len("".join(words[: PIECES // 4])):  # while nothing says that the reply has ended
        for change in b.client.notification("session/changed")["changes"]:
            heard += change.get("text", "")
    for piece in words[PIECES // 2 :]:
        extend(a, session, piece)
    a.call("session/finish", sessionId=session, messageId="s1")
    took = time.monotonic() - begun
    until_same([a, b])
    assert b.texts(session)[-1] == "".join(words)
    sent = extends_on_hub(hub_server, a)
    assert 2 <= sent <= took / HUB_GATHER_S + 3
    assert sent <= PIECES / 10


@pytest.mark.parametrize("cut", [False, True], ids=["shared", "offline"])
def test_no_acknowledged_piece_is_lost_by_a_kill(machines: Machines, cut: bool) -> None:
    """Whenever the daemon is killed, with or without a hub: all that was acknowledged is there after the next start, and
    everywhere once the hub is back.
    """
    a, b = machines(2)
    session = shared_session(a, b)
    begin(a, session)
    if cut:
        a.link.cut()
        a.until_offline()
    said = ""
    for round_ in range(4):
        for piece in pieces(7 * round_ + 3, f"r{round_}-"):
            extend(a, session, piece, offset=len(said))
            said += piece
        a.kill()
        a.home.start()
        assert a.texts(session)[-1] == said
    a.link.heal()
    until_same([a, b])
    assert b.texts(session)[-1] == said


def test_pieces_written_offline_are_few_operations_too(machines: Machines, hub_server: Server) -> None:
    """They wait in the ledger, gathered, and are shared in their order when the hub is back."""
    a, b = machines(2)
    session = shared_session(a, b)
    begin(a, session)
    a.link.cut()
    a.until_offline()
    words = pieces(400)
    begun = time.monotonic()
    for piece in words:
        extend(a, session, piece)
    took = time.monotonic() - begun
    a.append(session, "after the reply")
    assert a.hub()["pending"] <= took / HUB_GATHER_S + 4
    a.link.heal()
    until_same([a, b])
    assert b.texts(session)[-2:] == ["".join(words), "after the reply"]
    assert extends_on_hub(hub_server, a) <= took / HUB_GATHER_S + 3


def test_whatever_comes_after_a_piece_sees_it(machines: Machines) -> None:
    """Reads, lists, searches, exports, forks and appends of the same connection, pipelined; and seqs rise in that order."""
    a, b = machines(2)
    session = shared_session(a, b)
    begin(a, session)
    said, seqs = "", []
    asks: list[tuple[str, dict[str, Any]]] = [
        ("session/read", {"sessionId": session}),
        ("session/open", {"sessionId": session}),
        ("session/export", {"sessionId": session, "format": "jsonl"}),
        ("session/fork", {"sessionId": session}),
        ("session/search", {"query": "needle"}),
        ("session/list", {"filter": {"store": "team"}}),
    ]
    for number, (method, params) in enumerate(asks):
        word = f"needle{number} "
        if method == "session/search":
            params = {"query": f"needle{number}"}
        sent = a.client.send("session/extend", {"sessionId": session, "messageId": "s1", "text": word})
        asked = a.client.send(method, params)
        said += word
        seq = a.client.answer(sent)["result"]["seq"]
        seqs.append(seq)
        answer = a.client.answer(asked)["result"]
        if method == "session/list":
            assert {one["sessionId"]: one["seq"] for one in answer["sessions"]}[session] == seq
        elif method == "session/search":
            assert [hit["sessionId"] for hit in answer["hits"]] == [session]
        elif method == "session/fork":
            assert a.texts(answer["session"]["sessionId"])[-1] == said
        elif method == "session/export":
            assert word.strip() in answer["content"]
        else:
            assert answer["messages"][-1]["content"] == said
    assert seqs == sorted(set(seqs))
    assert extend(a, session, "last") == seqs[-1] + 1
    assert a.append(session, "next")["seq"] == seqs[-1] + 2
    until_same([a, b])


def test_two_clients_that_write_one_reply_hear_of_each_other(machines: Machines) -> None:
    """What one of them added is told to the other, in order, and a piece that is sent again adds nothing."""
    [a] = machines(1)
    session = shared_session(a)
    begin(a, session)
    other = a.home.client()
    other.call("session/open", sessionId=session)
    a.call("session/open", sessionId=session)
    said = ""
    for number in range(20):
        writer = (a.client, other)[number % 2]
        piece = f"{number} "
        for _ in range(2):
            writer.call("session/extend", sessionId=session, messageId="s1", text=piece, offset=len(said))
        said += piece
    assert a.texts(session)[-1] == said
    heard = [change["text"] for change in _changes(a) if change["kind"] == "extended"]
    assert "".join(heard) == "".join(f"{number} " for number in range(1, 20, 2))


def _changes(machine: Machine) -> list[dict[str, Any]]:
    """All that the machine's client was told of by now."""
    heard = machine.client.heard_by_now()
    return [change for method, params in heard if method == "session/changed" for change in params["changes"]]


@pytest.mark.parametrize("method", ["append", "finish", "truncate", "clear", "delete"])
def test_others_change_the_session_while_a_reply_streams(machines: Machines, method: str) -> None:
    """Whatever they do, all machines end with the same; where the reply is still there, so is every acknowledged word."""
    a, b = machines(2)
    session = shared_session(a, b)
    begin(a, session)
    until(lambda: b.texts(session)[-1:] == [""], b.log)
    a.call("session/open", sessionId=session)
    said = ""
    more: dict[str, Any] = {
        "append": {"messages": [{"role": "user", "content": "b"}]},
        "finish": {"messageId": "s1"},
        "truncate": {"afterSeq": 1},
    }.get(method, {})
    for number in range(60):
        answer = a.client.answer(
            a.client.send("session/extend", {"sessionId": session, "messageId": "s1", "text": f"{number} "})
        )
        if "error" in answer:
            assert method != "append", answer
            break
        said += f"{number} "
        if number == 20 or (method == "append" and number % 5 == 0):
            b.call(f"session/{method}", sessionId=session, **more)
    if method == "delete":
        until(lambda: session not in a.sessions() and session not in b.sessions(), a.log)
    until_same([a, b])
    if method == "append":
        assert [text for text in a.texts(session) if text not in ("first", "b")] == [said]
        assert a.texts(session).count("b") == 12
    elif method == "finish":
        assert said.startswith(a.texts(session)[-1])


def test_a_writer_that_goes_away_leaves_its_words(machines: Machines) -> None:
    """The reply is finished as interrupted, after all that was acknowledged."""
    a, b = machines(2)
    session = shared_session(a, b)
    writer = a.home.client()
    message = {"role": "assistant", "content": "", "id": "s1", "status": "streaming"}
    writer.call("session/append", sessionId=session, messages=[message])
    for piece in ("one ", "two ", "three"):
        writer.call("session/extend", sessionId=session, messageId="s1", text=piece)
    writer.close()
    until(lambda: b.call("session/read", sessionId=session)["messages"][-1].get("status") == "interrupted", b.log)
    assert b.texts(session)[-1] == "one two three"
    until_same([a, b])


def test_a_reply_that_runs_is_not_said_to_wait(machines: Machines) -> None:
    """While the hub can be reached, what is gathered for a moment counts as shared; without it, it waits."""
    (a,) = machines(1)
    session = shared_session(a)
    begin(a, session)
    a.until_shared()
    a.client.heard_by_now()
    begun = time.monotonic()
    words = iter(range(10**6))
    while time.monotonic() < begun + HUB_NEWS_S + 0.5:
        extend(a, session, f"w{next(words)} ")
        assert a.hub()["pending"] == 0
    told = [params["hub"]["pending"] for method, params in a.client.heard_by_now() if method == "store/hubChanged"]
    assert set(told) <= {0}
    a.link.cut()
    a.until_offline()
    extend(a, session, "offline")
    assert a.hub()["pending"] > 0
