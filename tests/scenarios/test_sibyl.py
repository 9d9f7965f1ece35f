"""sibyl's own scenarios, on files that its own code wrote, with a daemon on the folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.home import Home
from tests.scenarios.systems import adopt, found, say, sibyl, texts, until, wire

FIRST = "session-20250219-143022"
SECOND = "session-20250220-143022"
PLANNED = f"""
(("{FIRST}" 3948964222 "前回は認証のバグを調べた"
  (:role :system :content "be kind" :timestamp 3948964222)
  (:role :user :content "認証のバグを直して" :timestamp 3948964223)
  (:role :assistant :content "" :timestamp 3948964224
   :tool-calls ((:id "c1" :name "grep" :arguments (("pattern" . "auth") ("max" . 3)))))
  (:role :tool :content "auth.lisp:12" :timestamp 3948964225 :tool-call-id "c1"))
 ("{SECOND}" 3949050622 nil (:role :user :content "other work" :timestamp 3949050623)))
"""


@pytest.fixture
def sessions(folder: Path) -> Path:
    sibyl(folder, "create", PLANNED)
    return folder


def file_of(folder: Path, session: str = FIRST) -> Path:
    return folder / session / "session.lisp"


def test_resume_by_id(home: Home, sessions: Path) -> None:
    """The id at start gives the conversation, tool calls and summary back, after a restart too; sibyl resumes what was added."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    say(client, wire(sessions, FIRST), ("assistant", "12行目です"))
    before = client.call("session/open", sessionId=wire(sessions, FIRST))
    home.stop()
    home.start()
    after = home.client().call("session/open", sessionId=wire(sessions, FIRST))
    assert after["messages"] == before["messages"]
    assert [one["content"] for one in after["messages"]] == ["認証のバグを直して", "", "auth.lisp:12", "12行目です"]
    assert after["messages"][1]["toolCalls"] == [
        {"id": "c1", "name": "grep", "arguments": {"pattern": "auth", "max": 3}}
    ]
    assert after["messages"][2]["toolCallId"] == "c1"
    assert after["session"]["summary"] == "前回は認証のバグを調べた"
    [told] = sibyl(sessions, "report", FIRST)
    assert [one["content"] for one in told["messages"]] == ["認証のバグを直して", "", "auth.lisp:12", "12行目です"]
    assert (told["messages"][2]["answers"], told["summary"]) == ("c1", "前回は認証のバグを調べた")


def test_a_new_session_without_an_id(home: Home, sessions: Path) -> None:
    """It is made with an id of sibyl's kind, which resumes it in sibyl."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    made = client.call("session/new", store=sessions.parent.name)["session"]["sessionId"].split("/")[1]
    assert re.fullmatch(r"session-\d{8}-\d{6}(-\d+)?", made)
    say(client, wire(sessions, made), ("user", "fresh"))
    client.call("session/close", sessionId=wire(sessions, made))
    [told] = sibyl(sessions, "report", made)
    assert (told["id"], [one["content"] for one in told["messages"]]) == (made, ["fresh"])


def test_auto_save(sessions: Path, tmp_path: Path) -> None:
    """By the timer, and at the end of the daemon, without a save being asked for."""
    with Home(tmp_path, config="[autosave]\ninterval_s = 0.2\nidle_s = 0\n") as home:
        client = home.client()
        adopt(client, sessions, "sibyl")
        say(client, wire(sessions, FIRST), ("user", "by the timer"))
        until(lambda: "by the timer" in file_of(sessions).read_text())
        say(client, wire(sessions, SECOND), ("user", "at exit"))
    assert "at exit" in file_of(sessions, SECOND).read_text()


def test_sessions_lists_them(home: Home, sessions: Path) -> None:
    """/sessions: every id with its times and number of messages."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    listed = client.call("session/list", filter={"store": sessions.parent.name}, sort="createdAt")["sessions"]
    assert [(one["sessionId"], one["messageCount"], one["createdAt"]) for one in listed] == [
        (wire(sessions, FIRST), 3, "2025-02-19T14:30:22.000Z"), (wire(sessions, SECOND), 1, "2025-02-20T14:30:22.000Z"),
    ]  # fmt: skip


def test_load_saves_the_current_one_first(home: Home, sessions: Path) -> None:
    """/load: the session that is left is in its file before the other is shown."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    client.call("session/open", sessionId=wire(sessions, FIRST))
    say(client, wire(sessions, FIRST), ("user", "まだ保存していない"))
    client.call("session/close", sessionId=wire(sessions, FIRST))
    [told] = sibyl(sessions, "report", FIRST)
    assert told["messages"][-1]["content"] == "まだ保存していない"
    opened = client.call("session/open", sessionId=wire(sessions, SECOND))
    assert [one["content"] for one in opened["messages"]] == ["other work"]


def test_reset(home: Home, sessions: Path) -> None:
    """/reset: saved, then emptied under the same id, summary too; what was there can be brought back."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    client.call("session/open", sessionId=wire(sessions, FIRST))
    say(client, wire(sessions, FIRST), ("assistant", "unsaved"))
    cleared = client.call("session/clear", sessionId=wire(sessions, FIRST))["session"]
    assert (cleared["sessionId"], cleared["messageCount"], cleared["summary"]) == (wire(sessions, FIRST), 0, None)
    say(client, wire(sessions, FIRST), ("user", "anew"))
    client.call("session/save", sessionId=wire(sessions, FIRST))
    [told] = sibyl(sessions, "report", FIRST)
    assert ([one["content"] for one in told["messages"]], told["summary"]) == (["anew"], None)
    [was] = client.call("session/list", filter={"store": sessions.parent.name, "deleted": True})["sessions"]
    assert was["sessionId"].startswith(wire(sessions, FIRST) + ".was-")
    back = client.call("session/restore", sessionId=was["sessionId"])["session"]
    assert back["parent"]["sessionId"] == wire(sessions, FIRST)
    assert texts(client, back["sessionId"]) == ["認証のバグを直して", "", "auth.lisp:12", "unsaved"]


def test_system_messages_and_thinking_are_not_in_the_file(home: Home, sessions: Path) -> None:
    """They are kept next to it and are back after a restart; summary and tool calls are in it."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    session = wire(sessions, FIRST)
    say(client, session, ("system", "never-in-file"))
    say(
        client, session, ("assistant", "shown"), thinking="thought-unseen",
        toolCalls=[{"id": "c2", "name": "edit", "arguments": {"path": "b.lisp"}}],
    )  # fmt: skip
    client.call("session/update", sessionId=session, summary="新しい要約")
    client.call("session/save", sessionId=session)
    content = file_of(sessions).read_text()
    assert "never-in-file" not in content
    assert "thought-unseen" not in content
    [told] = sibyl(sessions, "report", FIRST)
    assert (told["summary"], told["messages"][-1]["content"]) == ("新しい要約", "shown")
    assert [(call["id"], call["name"]) for call in told["messages"][-1]["calls"]] == [("c2", "edit")]
    home.stop()
    home.start()
    *_, system, shown = home.client().call("session/read", sessionId=session)["messages"]
    assert (system["role"], system["content"], shown["thinking"]) == ("system", "never-in-file", "thought-unseen")


def test_japanese_queries(home: Home, sessions: Path) -> None:
    """Any substring of Japanese text finds its session, one character too; so does what was just said."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    here = {"filter": {"store": sessions.parent.name}}
    for query in ("認証", "バグ", "直", "のバグを"):
        assert found(client, query, **here) == [wire(sessions, FIRST)], query
    say(client, wire(sessions, SECOND), ("user", "設計を見直す"))
    assert found(client, "設計", **here) == [wire(sessions, SECOND)]
    assert found(client, "直", **here) == [wire(sessions, FIRST), wire(sessions, SECOND)]


def test_sibyl_saves_while_we_hold_it_open(home: Home, sessions: Path) -> None:
    """Its whole rewrite from memory and our append come together; nothing of either is lost."""
    client = home.client()
    adopt(client, sessions, "sibyl")
    client.call("session/open", sessionId=wire(sessions, SECOND))
    say(client, wire(sessions, SECOND), ("user", "ours"))
    sibyl(sessions, "resave", f'(("{SECOND}" (:role :assistant :content "theirs" :timestamp 3949050700)))')
    client.notification("session/reloaded")
    client.call("session/save", sessionId=wire(sessions, SECOND))
    assert sorted(texts(client, wire(sessions, SECOND))) == ["other work", "ours", "theirs"]
    [told] = sibyl(sessions, "report", SECOND)
    assert sorted(one["content"] for one in told["messages"]) == ["other work", "ours", "theirs"]
