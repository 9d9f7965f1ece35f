"""Theia's own scenarios, on blobs that its own code wrote, with a daemon on the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.home import Home
from tests.scenarios.systems import adopt, say, texts, theia, wire

SECRET = {"role": "user", "content": "My secret code is 777."}
PLAN = {
    "goal": "Create file secret.txt",
    "steps": [{"do": "write", "status": "done"}, {"do": "check", "status": "pending"}],
}
STATE: dict[str, Any] = {
    "messages": [SECRET, {"role": "assistant", "content": "Noted."}], "context": {"panel": "diff"}, "prData": {"number": 12},
    "plan": PLAN, "pendingAction": {"kind": "confirm"}, "lastError": None, "now": "2026-01-10T09:00:00.000Z",
}  # fmt: skip


def freeze(folder: Path, name: str = "pr-12", **changed: Any) -> Path:
    file = folder / f"{name}.json"
    theia(file, ["saveState", {**STATE, **changed}])
    return file


def test_the_immortality_test(home: Home, folder: Path) -> None:
    """Chat and plan are said, daemon and page are gone, both are back: restored event, then all state, for every panel."""
    freeze(folder, plan=None)
    client = home.client()
    adopt(client, folder, "theia")
    client.call("state/set", sessionId=wire(folder, "pr-12"), values={"plan": PLAN})
    home.kill()
    home.start()
    page = home.client()
    opened = page.call("session/open", sessionId=wire(folder, "pr-12"), restore=True)
    assert [one["content"] for one in opened["messages"]] == ["My secret code is 777.", "Noted."]
    restored = page.notification("session/restored")
    assert (restored["session"]["sessionId"], restored["messageCount"]) == (wire(folder, "pr-12"), 2)
    changed = page.notification("session/changed")
    [repaint] = changed["changes"]
    assert (repaint["kind"], repaint["replay"]) == ("state", True)
    assert repaint["values"]["plan"] == PLAN
    assert repaint["values"]["context"] == {"panel": "diff"}
    assert "messages" not in repaint["values"]
    assert changed["seq"] == opened["session"]["seq"]
    page.call("session/save", sessionId=wire(folder, "pr-12"))
    [thawed] = theia(folder / "pr-12.json", ["loadState"])
    assert (thawed["plan"], thawed["messages"][0]) == (PLAN, SECRET)


def test_freeze_after_each_run(home: Home, folder: Path) -> None:
    """What another tool says is in the blob that Theia thaws; what Theia freezes then reaches that tool."""
    file = freeze(folder)
    client = home.client()
    adopt(client, folder, "theia")
    client.call("session/open", sessionId=wire(folder, "pr-12"))
    say(client, wire(folder, "pr-12"), ("user", "from Emacs"))
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    [thawed] = theia(file, ["loadState"])
    assert [one["content"] for one in thawed["messages"]] == ["My secret code is 777.", "Noted.", "from Emacs"]
    theia(
        file,
        ["saveState", {**thawed, "messages": [*thawed["messages"], {"role": "assistant", "content": "hello Emacs"}]}],
    )
    assert client.notification("session/reloaded")["reason"] == "externalEdit"
    assert texts(client, wire(folder, "pr-12"))[-1] == "hello Emacs"


def test_saved_at(home: Home, folder: Path) -> None:
    """It is the session's time; it is the same while nothing changes, and later once something did."""
    file = freeze(folder)
    before = file.read_bytes()
    client = home.client()
    adopt(client, folder, "theia")
    got = client.call("state/get", sessionId=wire(folder, "pr-12"))
    info = client.call("session/open", sessionId=wire(folder, "pr-12"))["session"]
    assert (got["savedAt"], info["updatedAt"]) == ("2026-01-10T09:00:00.000Z",) * 2
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    assert file.read_bytes() == before
    client.call("state/set", sessionId=wire(folder, "pr-12"), values={"lastError": "boom"})
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    [thawed] = theia(file, ["loadState"])
    assert thawed["lastError"] == "boom"
    assert thawed["savedAt"] > "2026-01-10T09:00:00.000Z"
    assert list(thawed) == ["messages", "context", "prData", "plan", "pendingAction", "lastError", "savedAt"]


def test_clear_state(home: Home, folder: Path) -> None:
    """State and messages cleared by us are gone for Theia; its own memory wipe ends the session, which is in the trash."""
    file = freeze(folder)
    client = home.client()
    adopt(client, folder, "theia")
    client.call("session/open", sessionId=wire(folder, "pr-12"))
    client.call("state/clear", sessionId=wire(folder, "pr-12"))
    client.call("session/clear", sessionId=wire(folder, "pr-12"))
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    [thawed] = theia(file, ["loadState"])
    assert (thawed["messages"], thawed.get("plan"), thawed.get("prData")) == ([], None, None)
    say(client, wire(folder, "pr-12"), ("user", "wiped by Theia"))
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    theia(file, ["clearState"])
    client.notification("session/deleted")
    gone = client.call("session/list", filter={"store": folder.parent.name, "deleted": True})["sessions"]
    assert wire(folder, "pr-12") in [one["sessionId"] for one in gone]


def test_has_saved_state(home: Home, folder: Path) -> None:
    """Nothing saved: not found, and no file is made by asking; saved by either, it is there for both."""
    client = home.client()
    adopt(client, folder, "theia")
    assert (
        client.fails("session/open", sessionId=wire(folder, "pr-1"), restore=True)["data"]["kind"] == "sessionNotFound"
    )
    assert theia(folder / "pr-1.json", ["hasSavedState"]) == [False]
    client.call("session/new", store=folder.parent.name, sessionId="pr-1")
    say(client, wire(folder, "pr-1"), ("user", "x"))
    client.call("session/save", sessionId=wire(folder, "pr-1"))
    assert theia(folder / "pr-1.json", ["hasSavedState"]) == [True]


def test_sessions_side_by_side(home: Home, folder: Path) -> None:
    """A blob for each pull request: their chats and plans never mix."""
    for number in (1, 2, 3):
        freeze(folder, f"pr-{number}", plan={"n": number}, messages=[{"role": "user", "content": f"about {number}"}])
    client = home.client()
    assert adopt(client, folder, "theia")["sessions"] == 3
    client.call("state/set", sessionId=wire(folder, "pr-2"), values={"plan": {"n": 22}})
    client.call("session/save")
    for number, plan in ((1, 1), (2, 22), (3, 3)):
        assert texts(client, wire(folder, f"pr-{number}")) == [f"about {number}"]
        assert client.call("state/get", sessionId=wire(folder, f"pr-{number}"))["values"]["plan"] == {"n": plan}
        assert json.loads((folder / f"pr-{number}.json").read_text())["plan"] == {"n": plan}


def test_twelve_megabytes_of_state(home: Home, folder: Path) -> None:
    """More than a browser keeps: set, saved, thawed, and whole after a restart."""
    file = freeze(folder)
    client = home.client()
    adopt(client, folder, "theia")
    huge = "日本 emoji 👩‍👩‍👧 " * 400_000
    assert len(huge.encode()) > 12_000_000
    client.call("state/set", sessionId=wire(folder, "pr-12"), values={"prData": {"diff": huge}})
    client.call("session/save", sessionId=wire(folder, "pr-12"))
    home.stop()
    home.start()
    page = home.client()
    page.call("session/open", sessionId=wire(folder, "pr-12"), restore=True)
    assert page.notification("session/changed")["changes"][0]["values"]["prData"]["diff"] == huge
    assert json.loads(file.read_text())["prData"]["diff"] == huge
