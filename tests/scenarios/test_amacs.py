"""amacs' own scenarios, on files that its own code wrote, with a daemon on the folder."""

from __future__ import annotations

from pathlib import Path

from tests.home import Home
from tests.scenarios.systems import adopt, amacs, say, texts, wire


def exchange(tick: int) -> list[object]:
    return [
        "agent-chat-append-exchange", "@agent-chat.org", tick, f"問い {tick}", f"answer {tick}", f"2025-01-02T14:3{tick}:00Z",
    ]  # fmt: skip


def test_chat_persistence(home: Home, folder: Path) -> None:
    """Five exchanges by amacs and one from another tool are in context after a restart of both, each under its tick."""
    amacs(folder, *map(exchange, range(1, 6)))
    chat = wire(folder, "agent-chat")
    client = home.client()
    adopt(client, folder, "amacs")
    wanted = [text for tick in range(1, 6) for text in (f"問い {tick}", f"answer {tick}")]
    assert texts(client, chat) == wanted
    say(client, chat, ("user", "* no heading\n:END:"), ("assistant", "#+end_src"))
    client.call("session/save", sessionId=chat)
    home.stop()
    home.start()
    assert texts(home.client(), chat) == [*wanted, "* no heading\n:END:", "#+end_src"]
    [history, structure] = amacs(
        folder, ["agent-chat-load-history", "@agent-chat.org"], ["amacs-structure", "@agent-chat.org"]
    )
    assert [one["tick"] for one in history] == [1, 2, 3, 4, 5, 6]
    assert [one["human"] for one in history[:5]] == wanted[::2]
    titles = [title for kind, _, title in structure if kind == "headline"]
    assert titles == [t for tick in range(1, 7) for t in (f"Tick {tick}", "Human", "Agent")]


def test_an_unanswered_question_waits_beside_the_file(home: Home, folder: Path) -> None:
    """A user message alone is kept through a restart without a tick; its answer completes the exchange in the file."""
    amacs(folder, exchange(1))
    chat = wire(folder, "agent-chat")
    client = home.client()
    adopt(client, folder, "amacs")
    before = (folder / "agent-chat.org").read_bytes()
    say(client, chat, ("user", "waits"))
    client.call("session/save", sessionId=chat)
    assert (folder / "agent-chat.org").read_bytes() == before
    home.stop()
    home.start()
    client = home.client()
    assert texts(client, chat)[-1] == "waits"
    say(client, chat, ("assistant", "answered"))
    client.call("session/save", sessionId=chat)
    assert (folder / "agent-chat.org").read_bytes().startswith(before)
    [history] = amacs(folder, ["agent-chat-load-history", "@agent-chat.org"])
    assert [(one["tick"], one["human"], one["agent"]) for one in history][1:] == [(2, "waits", "answered")]


def test_scratchpad_persistence(home: Home, folder: Path) -> None:
    """A note that amacs wrote is there after a restart; another tool's note goes under the same heading, with properties."""
    amacs(
        folder, exchange(1), ["agent-scratchpad-append", "@scratchpad.org", "Parser Notes", "first", "rust-debugging", 45]
    )  # fmt: skip
    chat = wire(folder, "agent-chat")
    client = home.client()
    adopt(client, folder, "amacs")
    client.call(
        "note/append", sessionId=chat, heading="Parser Notes", content="second", thread="rust-debugging", tick=46
    )
    client.call("note/append", sessionId=chat, heading="New", content="* not a heading", tick=46)
    client.call("session/save", sessionId=chat)
    home.stop()
    home.start()
    notes = home.client().call("session/open", sessionId=chat)["notes"]
    told = "\n".join(note["content"] for note in notes if note["heading"] == "Parser Notes")
    assert told.index("first") < told.index("second")
    [loaded] = amacs(folder, ["agent-scratchpad-load", "@scratchpad.org"])
    assert [(one["heading"], one["thread"]) for one in loaded] == [("Parser Notes", "rust-debugging"), ("New", None)]
    assert "first" in loaded[0]["content"] and "second" in loaded[0]["content"]


def test_thread_scoped_notes(home: Home, folder: Path) -> None:
    """A thread's notes are listed while it is active only, global ones always, each group to its own depth; amacs filters the same."""
    amacs(
        folder,
        exchange(1),
        ["agent-scratchpad-append", "@scratchpad.org", "Everywhere", "g1", None, 1],
        ["agent-scratchpad-append", "@scratchpad.org", "Rust", "r1", "rust-debugging", 2],
    )
    chat = wire(folder, "agent-chat")
    client = home.client()
    adopt(client, folder, "amacs")
    client.call("note/append", sessionId=chat, heading="Also everywhere", content="g2", tick=3)
    client.call("note/append", sessionId=chat, heading="More Rust", content="r2", thread="rust-debugging", tick=3)

    def listed(**which: object) -> list[str]:
        return [note["content"] for note in client.call("note/list", sessionId=chat, **which)["notes"]]

    assert listed() == ["g1", "g2"]
    assert listed(thread="other") == ["g1", "g2"]
    assert listed(thread="rust-debugging") == ["g1", "r1", "g2", "r2"]
    assert listed(thread="rust-debugging", lastGlobal=1, lastThread=2) == ["r1", "g2", "r2"]
    assert listed(thread="rust-debugging", lastGlobal=2, lastThread=0) == ["g1", "g2"]
    client.call("session/save", sessionId=chat)
    [notes] = amacs(folder, ["agent-scratchpad-load", "@scratchpad.org"])
    assert [one["heading"] for one in notes if one["thread"] in (None, "other")] == ["Everywhere", "Also everywhere"]
    assert [one["heading"] for one in notes if one["thread"]] == ["Rust", "More Rust"]


def test_missing_and_empty_files_are_a_fresh_start(home: Home, folder: Path) -> None:
    """No file, then an empty one: no error, no messages; the first exchange makes the file that amacs loads."""
    chat = wire(folder, "agent-chat")
    client = home.client()
    assert adopt(client, folder, "amacs")["warnings"] == []
    client.call("session/new", store=folder.parent.name, sessionId="agent-chat")
    assert client.call("session/open", sessionId=chat)["messages"] == []
    home.stop()
    (folder / "agent-chat.org").write_bytes(b"")
    (folder / "scratchpad.org").write_bytes(b"")
    home.start()
    client = home.client()
    opened = client.call("session/open", sessionId=chat)
    assert (opened["messages"], opened["notes"], opened["warnings"]) == ([], [], [])
    say(client, chat, ("user", "hello"), ("assistant", "hi"))
    client.call("session/save", sessionId=chat)
    [history] = amacs(folder, ["agent-chat-load-history", "@agent-chat.org"])
    assert [(one["human"], one["agent"]) for one in history] == [("hello", "hi")]


def test_resuming_from_tick_n(home: Home, folder: Path) -> None:
    """After a restart the newest message says the tick to resume from, and what is said next goes under the next one."""
    amacs(folder, exchange(7), exchange(8))
    chat = wire(folder, "agent-chat")
    client = home.client()
    adopt(client, folder, "amacs")
    home.stop()
    home.start()
    client = home.client()
    opened = client.call("session/open", sessionId=chat, last=1)
    assert [message["tick"] for message in opened["messages"]] == [8]
    assert opened["hasMore"] is True
    say(client, chat, ("user", "go on"), ("assistant", "on it"))
    client.call("session/save", sessionId=chat)
    [history] = amacs(folder, ["agent-chat-load-history", "@agent-chat.org"])
    assert [one["tick"] for one in history] == [7, 8, 9]
    amacs(folder, ["agent-chat-append-exchange", "@agent-chat.org", 10, "its own", "next", "2025-01-02T15:00:00Z"])
    assert client.notification("session/reloaded")["reason"] == "externalEdit"
    newest = client.call("session/read", sessionId=chat, last=2)["messages"]
    assert [(message["tick"], message["content"]) for message in newest] == [(10, "its own"), (10, "next")]
