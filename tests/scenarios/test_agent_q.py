"""Agent-Q's own scenarios, on files that its own code wrote, with a daemon on the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.home import Home
from tests.scenarios.systems import adopt, agent_q, found, say, texts, until, wire

AUTH = "session-20260111-143022"
OTHER = "session-20260111-152045"
PLANNED = [
    {"id": AUTH, "name": "Auth bug investigation", "model": "claude-sonnet-4-5", "created": 1_768_141_822_000, "messages": [
        {"id": "20260111143022-a1b2", "role": "user", "content": "Fix the bug in auth.lisp", "time": 1_768_141_822_000},
        {"id": "20260111143025-c3d4", "role": "assistant", "content": "Looking at \"auth.lisp\"", "time": 1_768_141_825_000,
         "metadata": '(:tool-calls ((:id "c1" :name "read" :arguments (:path "auth.lisp"))))'}]},
    {"id": OTHER, "name": None, "model": None, "created": 1_768_144_845_000, "messages": [
        {"id": "m1", "role": "user", "content": "日本語で説明して", "time": 1_768_144_845_000}]},
]  # fmt: skip


@pytest.fixture
def sessions(folder: Path) -> Path:
    agent_q(folder, "create", PLANNED)
    return folder


def reported(folder: Path) -> dict[str, dict]:
    return {one["id"]: one for one in agent_q(folder, "report")}


def test_save_and_load(home: Home, sessions: Path) -> None:
    """Loaded with ids, times, model and tool calls; saved with what another tool said, and read by Emacs as its own."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    opened = client.call("session/open", sessionId=wire(sessions, AUTH))
    first, second = opened["messages"]
    assert (first["id"], first["content"], first["timestamp"]) == (
        "20260111143022-a1b2", "Fix the bug in auth.lisp", "2026-01-11T14:30:22.000Z",
    )  # fmt: skip
    assert second["toolCalls"] == [{"id": "c1", "name": "read", "arguments": {"path": "auth.lisp"}}]
    assert opened["session"]["model"] == "claude-sonnet-4-5"
    say(client, wire(sessions, AUTH), ("user", 'and "that" \\ one'), contextSnapshot={"buffer": "auth.lisp"})
    client.call("session/save", sessionId=wire(sessions, AUTH))
    told = reported(sessions)[AUTH]
    assert [one["content"] for one in told["messages"]] == [first["content"], second["content"], 'and "that" \\ one']
    assert told["messages"][2]["context"] == '(:buffer "auth.lisp")'
    assert told["listed"] == ["Auth bug investigation", "2026-01-11 14:30:22"]


def test_an_unchanged_session_is_not_written(home: Home, sessions: Path) -> None:
    """Loading and saving leaves the bytes of both files."""
    before = {path.name: path.read_bytes() for path in sessions.glob("*.el")}
    client = home.client()
    adopt(client, sessions, "agent-q")
    client.call("session/open", sessionId=wire(sessions, AUTH))
    client.call("session/save", sessionId=wire(sessions, AUTH))
    assert {path.name: path.read_bytes() for path in sessions.glob("*.el")} == before


def test_delete(home: Home, sessions: Path) -> None:
    """Gone from the folder and from the list, of both; it can be brought back."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    before = (sessions / f"{AUTH}.el").read_bytes()
    client.call("session/delete", sessionId=wire(sessions, AUTH))
    assert list(reported(sessions)) == [OTHER]
    assert client.fails("session/open", sessionId=wire(sessions, AUTH))["data"]["kind"] == "sessionNotFound"
    client.call("session/restore", sessionId=wire(sessions, AUTH))
    client.call("session/save")
    assert (sessions / f"{AUTH}.el").read_bytes() == before


def test_list(home: Home, sessions: Path) -> None:
    """Every session with name, time and number of messages; `index.el` is not a session."""
    (sessions / "index.el").write_text(f'(("{AUTH}" :name "Auth bug investigation"))\n')
    client = home.client()
    assert adopt(client, sessions, "agent-q")["warnings"] == []
    listed = client.call("session/list", filter={"store": sessions.parent.name}, sort="createdAt")["sessions"]
    assert [(one["sessionId"], one["name"], one["createdAt"], one["messageCount"]) for one in listed] == [
        (wire(sessions, AUTH), "Auth bug investigation", "2026-01-11T14:30:22.000Z", 2),
        (wire(sessions, OTHER), None, "2026-01-11T15:20:45.000Z", 1),
    ]
    assert (sessions / "index.el").read_text().startswith('(("session-')


def test_search(home: Home, sessions: Path) -> None:
    """Sessions are found by what was said in them, case ignored, by Japanese words and by name."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    here = {"filter": {"store": sessions.parent.name}}
    assert found(client, "FIX bug", **here) == [wire(sessions, AUTH)]
    assert found(client, "説明", **here) == [wire(sessions, OTHER)]
    assert found(client, "in:name investigation", **here) == [wire(sessions, AUTH)]
    assert found(client, "nowhere", **here) == []


def test_switch_session(home: Home, sessions: Path) -> None:
    """From one to another and back: the one that is left is saved, the other shows all it holds."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    client.call("session/open", sessionId=wire(sessions, AUTH))
    say(client, wire(sessions, AUTH), ("user", "before the switch"))
    client.call("session/close", sessionId=wire(sessions, AUTH))
    opened = client.call("session/open", sessionId=wire(sessions, OTHER))
    assert [one["content"] for one in opened["messages"]] == ["日本語で説明して"]
    assert "before the switch" in (sessions / f"{AUTH}.el").read_text()
    client.call("session/close", sessionId=wire(sessions, OTHER))
    opened = client.call("session/open", sessionId=wire(sessions, AUTH))
    assert opened["messages"][-1]["content"] == "before the switch"


def test_new_session(home: Home, sessions: Path) -> None:
    """It has an id of Agent-Q's kind and no file until something was said; then Emacs lists it."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    made = client.call("session/new", store=sessions.parent.name)["session"]["sessionId"]
    local = made.split("/")[1]
    client.call("session/close", sessionId=made)
    assert sorted(path.stem for path in sessions.glob("session-*.el")) == [AUTH, OTHER]
    say(client, made, ("user", "first words"))
    client.call("session/save", sessionId=made)
    assert [one["content"] for one in reported(sessions)[local]["messages"]] == ["first words"]


def test_name_session(home: Home, sessions: Path) -> None:
    """The name is in the header that Agent-Q lists by, and in the form; others see it at once."""
    client, other = home.client(), home.client()
    adopt(client, sessions, "agent-q")
    other.call("session/open", sessionId=wire(sessions, OTHER))
    client.call("session/update", sessionId=wire(sessions, OTHER), name="説明 session")
    assert other.notification("session/changed")["changes"][0]["session"]["name"] == "説明 session"
    client.call("session/save", sessionId=wire(sessions, OTHER))
    told = reported(sessions)[OTHER]
    assert (told["name"], told["listed"][0]) == ("説明 session", "説明 session")


def test_auto_save_only_sessions_with_messages(sessions: Path, tmp_path: Path) -> None:
    """Once quiet, what was said is in the file without a save; a session without messages makes none."""
    with Home(tmp_path, config="[autosave]\nidle_s = 0.05\n") as home:
        client = home.client()
        adopt(client, sessions, "agent-q")
        client.call("session/new", store=sessions.parent.name, sessionId="session-20270101-000000")
        say(client, wire(sessions, AUTH), ("user", "saved by itself"))
        until(lambda: "saved by itself" in (sessions / f"{AUTH}.el").read_text())
    assert sorted(path.stem for path in sessions.glob("session-*.el")) == [AUTH, OTHER]


def test_messages_preserved_across_restart(home: Home, sessions: Path) -> None:
    """Killed without a save: all that was said is there, and in the file for Emacs after the next save."""
    client = home.client()
    adopt(client, sessions, "agent-q")
    say(client, wire(sessions, AUTH), ("user", "acknowledged"))
    home.kill()
    home.start()
    client = home.client()
    assert texts(client, wire(sessions, AUTH))[-1] == "acknowledged"
    agent_q(
        sessions,
        "resave",
        [{"id": AUTH, "messages": [{"id": "n", "role": "user", "content": "Emacs", "time": 1_768_141_900_000}]}],
    )
    until(lambda: {"acknowledged", "Emacs"} <= set(texts(client, wire(sessions, AUTH))))
    client.call("session/save", sessionId=wire(sessions, AUTH))
    contents = [one["content"] for one in reported(sessions)[AUTH]["messages"]]
    assert sorted(contents[2:]) == ["Emacs", "acknowledged"]
