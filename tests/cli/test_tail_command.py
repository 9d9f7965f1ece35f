"""`sessiond tail`: which events it shows, and how it ends or continues."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sessiond.cli import tail
from sessiond.cli.tail import _Follower
from tests.fakes.answers import Answers

OPENED = {"session": {"sessionId": "s", "seq": 1}, "messages": [{"seq": 1, "role": "user", "content": "before"}]}


def changed(*changes: dict[str, Any], session: str = "s") -> tuple[str, dict[str, Any]]:
    return "session/changed", {"sessionId": session, "changes": list(changes)}


def follow(told: list[tuple[str, dict[str, Any]]], *, as_json: bool = False) -> _Follower:
    follower = _Follower("s", as_json)
    client: Any = Answers({"session/open": [OPENED]}, told)
    with pytest.raises(ConnectionError):
        follower.follow(client, 10)
    return follower


def test_everything_that_happens_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Messages whole, streamed text as it comes and its line ended with it, notes and other changes by a line; other sessions'
    changes and state are nobody's here.
    """
    follower = follow([
        changed({"kind": "appended", "seq": 2, "messages": [{"id": "r", "seq": 2, "role": "assistant", "content": "He", "status": "streaming"}]}),
        changed({"kind": "extended", "seq": 3, "messageId": "r", "text": "ll\x1b[31m"}, {"kind": "extended", "seq": 4, "messageId": "r", "text": "o"}),
        changed({"kind": "finished", "seq": 5, "messageId": "r"}),
        changed({"kind": "extended", "seq": 6, "messageId": "a", "text": "x"}, {"kind": "extended", "seq": 7, "messageId": "b", "text": "y"}),
        changed({"kind": "note", "seq": 8, "note": {"id": "n", "heading": "H", "content": "c\nd"}}),
        changed({"kind": "state", "seq": 9}, {"kind": "finished", "seq": 10, "messageId": "z"}, {"kind": "cleared", "seq": 11}),
        changed({"kind": "cleared", "seq": 99}, session="other"),
        ("session/saved", {"sessionId": "s"}),
    ])  # fmt: skip
    shown = capsys.readouterr().out
    assert shown == "── user #1\nbefore\n── assistant #2 [streaming]\nHell[31mo\nx\ny\n── note: H: c d\n── cleared\n"
    assert follower.since == 11


def test_a_reply_begins_below_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    """One that begins without text, one with a whole line, and one that is cut off by the next message."""
    told = {"role": "assistant", "status": "streaming"}
    follow([
        changed({"kind": "appended", "seq": 2, "messages": [{**told, "id": "r", "seq": 2, "content": ""}]}),
        changed({"kind": "extended", "seq": 3, "messageId": "r", "text": "Hello"}, {"kind": "finished", "seq": 4, "messageId": "r"}),
        changed({"kind": "appended", "seq": 5, "messages": [{**told, "id": "q", "seq": 5, "content": "One\n"}]}),
        changed({"kind": "extended", "seq": 6, "messageId": "q", "text": "two"}, {"kind": "finished", "seq": 7, "messageId": "q"}),
        changed({"kind": "appended", "seq": 8, "messages": [{**told, "id": "p", "seq": 8, "content": "Cut"}]}),
        changed({"kind": "appended", "seq": 9, "messages": [{"role": "user", "id": "o", "seq": 9, "content": "No"}]}),
    ])  # fmt: skip
    heading = "── assistant #{} [streaming]\n".format
    assert capsys.readouterr().out == (
        f"── user #1\nbefore\n{heading(2)}Hello\n{heading(5)}One\ntwo\n{heading(8)}Cut\n── user #9\nNo\n"
    )


def test_scripts_get_every_change_as_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    """A document a line, the messages to begin with in the same shape."""
    follow([changed({"kind": "state", "seq": 2, "values": {}})], as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"kind": "appended", "seq": 1, "messages": OPENED["messages"]},
        {"kind": "state", "seq": 2, "values": {}},
    ]


@pytest.mark.parametrize("method", ["session/resync", "session/reloaded"])
def test_what_was_missed_is_asked_for(method: str) -> None:
    """It continues from the last seq that was shown."""
    client: Any = Answers({"session/open": [OPENED]}, [(method, {"session": {"sessionId": "s"}, "sessionId": "s"})])
    follower = _Follower("s", False)
    follower.follow(client, 10)
    assert follower.since == 1


def test_after_a_restart_only_what_is_new_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon tells the changes since then, or where it no longer knows them, the messages."""
    cleared = {"kind": "cleared", "seq": 5}
    answers = [
        {"session": {"sessionId": "s", "seq": 5}, "messages": [], "changes": [cleared]},
        {**OPENED, "changes": None},
    ]
    client: Any = Answers({"session/open": answers})
    follower = _Follower("s", False)
    follower.since = 4
    follower._open(client, 10)
    assert client.asked == [("session/open", {"sessionId": "s", "since": 4})]
    assert capsys.readouterr().out == "── cleared\n"
    follower._open(client, 10)
    assert client.asked[1:] == [("session/open", {"sessionId": "s", "since": 5})]
    assert "before" in capsys.readouterr().out
    assert follower.since == 5


def test_a_reply_ends_with_its_calls_and_how_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """As `show` has them, also of one that said nothing before."""
    calls = [{"id": "c", "name": "bash", "arguments": {"command": "rm -r build"}}]
    told = {"seq": 2, "role": "assistant", "status": "streaming", "content": ""}
    finished = {"kind": "finished", "messageId": "r", "toolCalls": calls}
    follow([
        changed({"kind": "appended", "seq": 2, "messages": [{**told, "id": "r"}]}),
        changed({"kind": "extended", "seq": 3, "messageId": "r", "text": "Look"}, {**finished, "seq": 4, "status": "error"}),
        changed({"kind": "appended", "seq": 5, "messages": [{**told, "id": "r", "seq": 5}]}, {**finished, "seq": 6, "status": "done"}),
    ])  # fmt: skip
    call, heading = '→ bash {"command": "rm -r build"}', "── assistant #{} [streaming]\n".format
    shown = capsys.readouterr().out
    assert shown == f"── user #1\nbefore\n{heading(2)}Look\n{call}\n── error\n{heading(5)}{call}\n"


def test_all_of_many_messages_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Where they do not fit into one page, those to begin with and those that came meanwhile; nothing twice."""

    def page(*seqs: int, more: bool, **rest: Any) -> dict[str, Any]:
        said = [{"seq": seq, "role": "user", "content": f"said {seq}"} for seq in seqs]
        return {"messages": said, "hasMore": more, **rest}

    opened = [page(4, 5, more=True, session={"sessionId": "s", "seq": 5})]
    opened.append(page(6, 7, more=True, session={"sessionId": "s", "seq": 9}, changes=None))
    read = [page(2, 3, more=True), page(8, more=True, seq=9), page(9, 10, more=False, seq=10)]
    told = [
        changed({"kind": "appended", "seq": 10, "messages": page(10, more=False)["messages"]}),
        changed({"kind": "appended", "seq": 11, "messages": page(11, more=False)["messages"]}),
    ]
    client: Any = Answers({"session/open": opened, "session/read": read}, told)
    follower = _Follower("s", False)
    follower._open(client, 4)
    with pytest.raises(ConnectionError):
        follower.follow(client, 4)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("said")] == [
        f"said {seq}" for seq in range(2, 12)
    ]
    assert follower.since == 11
    assert [(params.get("before"), params.get("since")) for method, params in client.asked if method == "session/read"] == [
        (4, None), (None, 7), (None, 8),
    ]  # fmt: skip


def test_a_session_that_is_deleted_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With the way to have it back."""
    client: Any = Answers({"session/open": [OPENED]}, [("session/deleted", {"sessionId": "s"})])
    with pytest.raises(click.ClickException, match="sessiond restore s"):
        _Follower("s", False).follow(client, 10)


def test_it_follows_a_session_to_another_store(capsys: pytest.CaptureFixture[str]) -> None:
    """It was moved, so it is not gone, and nobody has to restore it."""
    moved = [("session/deleted", {"sessionId": "s", "movedTo": "team/s"})]
    follower, client = _Follower("s", False), Answers({"session/open": [OPENED]}, moved)
    follower.follow(client, 10)  # type: ignore[arg-type]
    assert follower.session_id == "team/s"
    assert "s is team/s now" in capsys.readouterr().err


def test_it_goes_on_with_the_next_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the connection ends a new one is made, and only what came since is requested."""
    client = Answers({"session/open": [OPENED, OPENED, KeyboardInterrupt()]})
    monkeypatch.setattr(tail, "connect_once", lambda: client)
    monkeypatch.setattr(tail, "_AGAIN_S", 0.0)
    CliRunner().invoke(tail.command, ["s", "--last", "3"])
    assert [params for _, params in client.asked] == [
        {"sessionId": "s", "last": 3},
        {"sessionId": "s", "since": 1},
        {"sessionId": "s", "since": 1},
    ]
