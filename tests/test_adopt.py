"""Folders of the five systems, adopted in place by a real daemon: listed, shared, appended to, saved, edited from outside, gone and back."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.home import Client, Home

AGENT_Q = """;; -*- mode: emacs-lisp; lexical-binding: t; -*-
;; Agent-Q Session
;; Created: 2026-01-11 14:30:22
;; Name: Auth bug

(:version 1
 :id "session-20260111-143022"
 :name "Auth bug"
 :created-at (26979 47102 0 0)
 :updated-at (26979 47105 0 0)
 :model "a-model"
 :messages
 ((:id "20260111143022-a1b2" :role user :content "Fix the \\"bug\\"" :timestamp (26979 47102 0 0) :context-snapshot nil :metadata nil)
  (:id "20260111143025-c3d4" :role assistant :content "Done" :timestamp (26979 47105 0 0) :context-snapshot nil :metadata nil))
 :metadata nil)
"""
SIBYL = """(:version 1 :id "session-20260111-143022" :created-at 3977042422 :summary "前回の続き"
 :messages ((:role :user :content "日本語で" :timestamp 3977042422)
            (:role :assistant :content "はい" :timestamp 3977042425)))
"""
AMACS = """* Tick 42
:PROPERTIES:
:TIMESTAMP: 2026-01-11T14:30:22Z
:END:

** Human
What is it?

** Agent
Looking.
"""
SCRATCHPAD = """* Working Notes
:PROPERTIES:
:THREAD: null
:TICK: 42
:END:
Remember this.
"""
CORTEX = '{"role":"user","content":"Hello","timestamp":1768141822000}\n{"role":"assistant","content":"Hi","timestamp":1768141823000}\n'
THEIA = {
    "messages": [{"role": "user", "content": "My secret code is 777."}, {"role": "assistant", "content": "Noted."}],
    "context": "c", "prData": None, "plan": {"steps": ["one"]}, "pendingAction": None, "lastError": None,
    "savedAt": "2026-01-11T14:30:22.000Z",
}  # fmt: skip

SYSTEMS = {
    "agent-q": ({"session-20260111-143022.el": AGENT_Q}, "session-20260111-143022", ['Fix the "bug"', "Done"]),
    "sibyl": ({"session-20260111-143022/session.lisp": SIBYL}, "session-20260111-143022", ["日本語で", "はい"]),
    "amacs": ({"agent-chat.org": AMACS, "scratchpad.org": SCRATCHPAD}, "agent-chat", ["What is it?", "Looking."]),
    "cortex": ({"transcripts/helper/transcript.jsonl": CORTEX}, "helper", ["Hello", "Hi"]),
    "theia": ({"pr-1.json": json.dumps(THEIA)}, "pr-1", ["My secret code is 777.", "Noted."]),
}


def made(folder: Path, system: str) -> Path:
    for name, content in SYSTEMS[system][0].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def texts(client: Client, session_id: str) -> list[str]:
    return [message["content"] for message in client.call("session/read", sessionId=session_id)["messages"]]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_folder_is_recognised_and_shared_in_place(home, tmp_path, system):
    """Adopted by path alone; listed, opened, searched, appended to, saved in the same file; all there after a restart."""
    folder = made(tmp_path / "theirs", system)
    files, local_id, said = SYSTEMS[system]
    client = home.client()
    adopted = client.call("store/adopt", path=str(folder), name="s")
    assert (adopted["store"]["format"], adopted["sessions"], adopted["warnings"]) == (system, 1, [])
    wire_id = f"s/{local_id}"
    [info] = client.call("session/list", filter={"store": "s"})["sessions"]
    assert (info["sessionId"], info["messageCount"], info["format"]) == (wire_id, 2, system)
    assert texts(client, wire_id) == said
    other = home.client()
    other.call("session/open", sessionId=wire_id)
    answer = client.call(
        "session/append",
        sessionId=wire_id,
        messages=[{"id": "q", "role": "user", "content": "ünïque-word"}, {"role": "assistant", "content": "ok"}],
    )
    assert other.notification("session/changed")["changes"][0]["messages"][0]["content"] == "ünïque-word"
    [saved] = client.call("session/save", sessionId=wire_id)["saved"]
    assert saved["path"] == str(folder / next(iter(files)))
    assert "ünïque-word" in Path(saved["path"]).read_text()
    assert client.call("session/search", query="ünïque-word")["total"] == 1
    home.stop()
    home.start()
    client = home.client()
    assert texts(client, wire_id) == [*said, "ünïque-word", "ok"]
    assert (
        client.call(
            "session/append", sessionId=wire_id, messages=[{"id": "q", "role": "user", "content": "ünïque-word"}]
        )["seq"]
        == answer["messages"][0]["seq"]
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_everything_a_session_holds_survives_save_kill_and_lost_cache(home, tmp_path, system):
    """Tags, state, notes, tool calls, thinking, roles that the format does not know, unknown keys: all back from the folder alone."""
    folder = made(tmp_path / "theirs", system)
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    wire_id = f"s/{SYSTEMS[system][1]}"
    client.call("session/append", sessionId=wire_id, messages=[
        {"role": "system", "content": "be kind"},
        {"role": "assistant", "content": [{"type": "text", "text": "blocks"}], "thinking": "hm",
         "toolCalls": [{"id": "c1", "name": "grep", "arguments": {"q": "x", "n": None}}]},
        {"role": "tool", "toolCallId": "c1", "content": "found", "class": {"jsonrpc": "2.0"}, "metadata": {"tool-name": 2**63 - 1}},
        {"role": "user", "content": "* heading\n#+end_src\n:END:\nLocal Variables:\n\"q\" \\ \u001b \u2028 👩‍👩‍👧 日本"},
    ])  # fmt: skip
    client.call("session/update", sessionId=wire_id, tags=["x", "y"], name="A name", archived=True, summary="s")
    client.call("state/set", sessionId=wire_id, values={"draft:emacs": "typed", "other": {"a": [1]}})
    client.call("note/append", sessionId=wire_id, heading="H", content="c", thread="t", tick=3)
    before = client.call("session/open", sessionId=wire_id)
    client.call("session/save", sessionId=wire_id)
    home.stop()
    shutil.rmtree(home.path / "cache")
    home.start()
    after = home.client().call("session/open", sessionId=wire_id)
    for key in ("messages", "notes", "state"):
        assert after[key] == before[key], key
    same = ("name", "tags", "archived", "summary", "seq", "messageCount", "createdAt", "updatedAt", "model", "metadata")
    assert {key: after["session"][key] for key in same} == {key: before["session"][key] for key in same}


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_edit_by_somebody_else_reaches_everyone(home, tmp_path, system):
    """The file is written by its own system while clients have it open: they are told, and see what it says."""
    folder = made(tmp_path / "theirs", system)
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    files, local_id, said = SYSTEMS[system]
    client.call("session/open", sessionId=f"s/{local_id}")
    path = folder / next(iter(files))
    path.write_text(path.read_text().replace(said[1], "edited by hand"))
    assert client.notification("session/reloaded")["reason"] == "externalEdit"
    assert texts(client, f"s/{local_id}") == [said[0], "edited by hand"]


@pytest.mark.parametrize("system", ["agent-q", "theia", "sibyl"])
def test_an_old_copy_written_from_memory_costs_nothing(home, tmp_path, system):
    """The system saves what it had in memory, without what came in here since: that is put back, file and all."""
    folder = made(tmp_path / "theirs", system)
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    files, local_id, said = SYSTEMS[system]
    wire_id = f"s/{local_id}"
    client.call("session/open", sessionId=wire_id)
    path = folder / next(iter(files))
    old = path.read_text()
    client.call("session/append", sessionId=wire_id, messages=[{"role": "user", "content": "from Vim"}])
    client.call("session/save", sessionId=wire_id)
    path.write_text(old.replace(said[1], "newer reply"))
    client.notification("session/reloaded")
    assert texts(client, wire_id) == [said[0], "newer reply", "from Vim"]
    client.call("session/save", sessionId=wire_id)
    assert "from Vim" in path.read_text()


def test_a_folder_that_goes_away_and_comes_back(home, tmp_path):
    """Unmounted, its store alone is unavailable; nothing is deleted or un-indexed; what waited is saved when it is back."""
    folder = made(tmp_path / "theirs", "cortex")
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    client.call("session/append", sessionId="s/helper", messages=[{"role": "user", "content": "waits"}])
    away = tmp_path / "away"
    folder.rename(away)
    folder.mkdir()  # an empty mount point
    until(lambda: problem(client, "s") == "unavailable")
    assert (
        client.fails("session/append", sessionId="s/helper", messages=[{"role": "user", "content": "no"}])["data"][
            "kind"
        ]
        == "unavailable"
    )
    assert client.call("session/new", sessionId="elsewhere")["session"]["seq"] == 0
    assert [path.name for path in folder.iterdir()] == []
    folder.rmdir()
    away.rename(folder)
    until(lambda: problem(client, "s") is None)
    assert texts(client, "s/helper") == ["Hello", "Hi", "waits"]
    until(lambda: "waits" in (folder / "transcripts/helper/transcript.jsonl").read_text())


def test_what_waits_for_a_folder_survives_a_restart_without_it(home, tmp_path):
    """The disk is unplugged, the daemon is killed and comes back first: what was acknowledged is in the file once the disk is there."""
    folder = made(tmp_path / "theirs", "agent-q")
    wire_id = f"s/{SYSTEMS['agent-q'][1]}"
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    client.call("session/append", sessionId=wire_id, messages=[{"role": "user", "content": "waits for the disk"}])
    home.kill()
    away = tmp_path / "away"
    folder.rename(away)
    home.start()
    client = home.client()
    assert problem(client, "s") == "unavailable"
    client.call("session/new", sessionId="x", messages=[{"role": "user", "content": "others work"}])
    away.rename(folder)
    until(lambda: problem(client, "s") is None)
    assert texts(client, wire_id)[-1] == "waits for the disk"
    until(lambda: "waits for the disk" in (folder / "session-20260111-143022.el").read_text())


def test_two_daemons_never_share_a_folder(home, tmp_path):
    """The second one says that its store is unavailable, and leaves it alone."""
    folder = made(tmp_path / "theirs", "theia")
    home.client().call("store/adopt", path=str(folder), name="s")
    (tmp_path / "second").mkdir()
    with Home(tmp_path / "second", config=f'[stores.s]\npath = "{folder}"\nformat = "theia"\n') as second:
        client = second.client()
        assert problem(client, "s") == "unavailable"
        assert client.fails("session/open", sessionId="s/pr-1")["data"]["kind"] == "unavailable"


def test_what_cannot_be_read_is_left_alone(home, tmp_path):
    """One broken file: badFile with its path, byte for byte as it was; all other sessions work."""
    folder = made(tmp_path / "theirs", "agent-q")
    broken = {
        "session-1.el": b"(((((" * 20_000,
        "session-2.el": b"(#.(run-program) :id 1)",
        "session-3.el": b"",
        "session-4.el": b"\0\xff" * 99,
    }
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    client = home.client()
    adopted = client.call("store/adopt", path=str(folder), name="s")
    assert adopted["sessions"] == 1
    assert len(adopted["warnings"]) == len(broken)
    for name, content in broken.items():
        error = client.fails("session/open", sessionId="s/" + name.removesuffix(".el"))
        assert (error["data"]["kind"], error["data"]["path"]) == ("badFile", str(folder / name))
        assert (folder / name).read_bytes() == content
    assert len(texts(client, "s/session-20260111-143022")) == 2


@pytest.mark.parametrize("target", SYSTEMS)
def test_a_session_moves_between_stores(home, tmp_path, target):
    """Dry run says what the target's own system will not show; the move loses nothing that a client can see."""
    folder = made(tmp_path / "theirs", target)
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s")
    client.call("session/new", sessionId="session-20260101-000000", name="N", tags=["t"], messages=[
        {"role": "system", "content": "sys"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho", "thinking": "x"},
    ])  # fmt: skip
    before = client.call("session/open", sessionId="session-20260101-000000")
    told = client.call("session/move", sessionId="session-20260101-000000", store="s", dryRun=True)
    assert ("the thinking in 1 message" in told["lost"]) and ("1 tag" in told["lost"])
    assert ("1 system message" in told["lost"]) == (target == "sibyl")
    moved = client.call("session/move", sessionId="session-20260101-000000", store="s")
    assert moved["session"]["sessionId"] == "s/session-20260101-000000"
    after = client.call("session/open", sessionId="s/session-20260101-000000")
    assert after["messages"] == before["messages"]
    assert (after["session"]["name"], after["session"]["tags"]) == ("N", ["t"])
    assert client.fails("session/open", sessionId="session-20260101-000000")["data"]["kind"] == "sessionNotFound"


def problem(client: Client, name: str) -> str | None:
    [store] = [store for store in client.call("daemon/status")["stores"] if store["name"] == name]
    return store["problem"] and store["problem"]["kind"]


def until(condition) -> None:
    """Wait for something that another process does; fails after a while."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
