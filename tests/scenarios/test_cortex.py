"""cortex' own scenarios, on files that its own code wrote, with a daemon on the folder. Each call of `cortex` is a new process."""

from __future__ import annotations

import json
from pathlib import Path

from tests.home import Home
from tests.scenarios.systems import adopt, cortex, say, texts, wire


def line(role: str, content: str, at: int) -> dict[str, object]:
    return {"role": role, "content": content, "timestamp": 1_700_000_000_000 + at}


def theirs(*contents: str, agent: str = "helper") -> list[list[object]]:
    return [["appendMessage", agent, line(["user", "assistant"][n % 2], one, n)] for n, one in enumerate(contents)]


def transcript(folder: Path, agent: str = "helper") -> Path:
    return folder / "transcripts" / agent / "transcript.jsonl"


def test_append_one_message_makes_the_file(home: Home, folder: Path) -> None:
    """The folder and the file are made with the first message, whose line is what cortex itself would have written."""
    client = home.client()
    adopt(client, folder, "cortex")
    client.call("session/new", store=folder.parent.name, sessionId="helper")
    say(client, wire(folder, "helper"), ("user", "Hello"), timestamp="2023-11-14T22:13:20.000Z")
    client.call("session/save", sessionId=wire(folder, "helper"))
    [only] = transcript(folder).read_text().splitlines()
    written = json.loads(only)
    assert {key: written[key] for key in ("role", "content", "timestamp")} == line("user", "Hello", 0)


def test_append_multiple_messages_each_on_its_own_line(home: Home, folder: Path) -> None:
    """Whatever a message holds it is one line, and what was in the file before stays byte for byte."""
    cortex(folder, *theirs("a", "b"))
    before = transcript(folder).read_bytes()
    client = home.client()
    adopt(client, folder, "cortex")
    contents = ["one\ntwo\r\n", "\u2028日本", '{"role":"x"}']
    say(client, wire(folder, "helper"), *(("user", one) for one in contents))
    client.call("session/save", sessionId=wire(folder, "helper"))
    after = transcript(folder).read_bytes()
    assert after.startswith(before)
    assert [json.loads(one)["content"] for one in after[len(before) :].split(b"\n")[:-1]] == contents


def test_load_history_in_chronological_order(home: Home, folder: Path) -> None:
    """The daemon and cortex give the same messages in the same order, oldest first, times and all."""
    cortex(folder, *theirs("1", "2", "3"))
    client = home.client()
    adopt(client, folder, "cortex")
    say(client, wire(folder, "helper"), ("assistant", "4"), ("user", "5"))
    client.call("session/save", sessionId=wire(folder, "helper"))
    assert texts(client, wire(folder, "helper")) == ["1", "2", "3", "4", "5"]
    [history] = cortex(folder, ["loadHistory", "helper"])["answers"]
    assert [one["content"] for one in history] == ["1", "2", "3", "4", "5"]
    assert [one["timestamp"] for one in history] == sorted(one["timestamp"] for one in history)


def test_load_history_with_a_limit_of_three(home: Home, folder: Path) -> None:
    """The last three, oldest first, from the daemon as from cortex."""
    cortex(folder, *theirs(*"abcdef"))
    client = home.client()
    adopt(client, folder, "cortex")
    opened = client.call("session/open", sessionId=wire(folder, "helper"), last=3)
    [history] = cortex(folder, ["loadHistory", "helper", 3])["answers"]
    assert [one["content"] for one in opened["messages"]] == ["d", "e", "f"] == [one["content"] for one in history]
    assert opened["hasMore"] is True
    assert texts(client, wire(folder, "helper"), last=3) == ["d", "e", "f"]


def test_load_history_from_a_file_that_does_not_exist(home: Home, folder: Path) -> None:
    """An agent that never spoke is not an error for its first writer, and has no messages."""
    client = home.client()
    assert adopt(client, folder, "cortex")["sessions"] == 0
    client.call("session/new", store=folder.parent.name, sessionId="silent")
    assert texts(client, wire(folder, "silent")) == []
    assert cortex(folder, ["loadHistory", "silent"])["answers"] == [[]]


def test_load_history_from_an_empty_file(home: Home, folder: Path) -> None:
    """An empty transcript is an empty session without a warning."""
    transcript(folder).parent.mkdir(parents=True)
    transcript(folder).write_bytes(b"")
    client = home.client()
    adopt(client, folder, "cortex")
    opened = client.call("session/open", sessionId=wire(folder, "helper"))
    assert (opened["messages"], opened["warnings"]) == ([], [])
    assert cortex(folder, ["loadHistory", "helper"])["answers"] == [[]]


def test_load_history_with_one_malformed_line(home: Home, folder: Path) -> None:
    """It is skipped with a warning that names file and line, and still is there after the next save, for cortex too."""
    cortex(folder, *theirs("a", "b"))
    with transcript(folder).open("a") as file:
        file.write('{"role":"user","content":\n')
    cortex(folder, *theirs("c"))
    before = transcript(folder).read_bytes()
    client = home.client()
    adopt(client, folder, "cortex")
    opened = client.call("session/open", sessionId=wire(folder, "helper"))
    assert [one["content"] for one in opened["messages"]] == ["a", "b", "c"]
    assert [(one["path"], one["line"]) for one in opened["warnings"]] == [(str(transcript(folder)), 3)]
    say(client, wire(folder, "helper"), ("assistant", "d"))
    client.call("session/save", sessionId=wire(folder, "helper"))
    assert transcript(folder).read_bytes().startswith(before)
    told = cortex(folder, ["loadHistory", "helper"])
    assert [one["content"] for one in told["answers"][0]] == ["a", "b", "c", "d"]
    assert len(told["warnings"]) == 1


def test_two_agents_do_not_interfere(home: Home, folder: Path) -> None:
    """Each has its folder; what is said to one changes nothing of the other."""
    cortex(folder, *theirs("for one", agent="one"), *theirs("for two", agent="two"))
    before = transcript(folder, "two").read_bytes()
    client = home.client()
    assert adopt(client, folder, "cortex")["sessions"] == 2
    say(client, wire(folder, "one"), ("assistant", "only one"))
    client.call("session/save")
    assert texts(client, wire(folder, "one")) == ["for one", "only one"]
    assert texts(client, wire(folder, "two")) == ["for two"]
    assert transcript(folder, "two").read_bytes() == before


def test_restart_and_load_history(home: Home, folder: Path) -> None:
    """Both append, both end, both start again: all of it is there for either, and ids stay."""
    cortex(folder, *theirs("a", "b"))
    client = home.client()
    adopt(client, folder, "cortex")
    say(client, wire(folder, "helper"), ("user", "c"))
    before = client.call("session/read", sessionId=wire(folder, "helper"))["messages"]
    home.stop()
    cortex(folder, *theirs("d"))
    home.start()
    after = home.client().call("session/read", sessionId=wire(folder, "helper"))["messages"]
    assert after[:3] == before
    assert [one["content"] for one in after] == ["a", "b", "c", "d"]
    [history] = cortex(folder, ["loadHistory", "helper"])["answers"]
    assert [one["content"] for one in history] == ["a", "b", "c", "d"]


def test_a_failed_write_is_an_error_that_the_caller_sees(home: Home, folder: Path) -> None:
    """A file that stands where the folder belongs: the save fails aloud, and what was said is not lost."""
    client = home.client()
    adopt(client, folder, "cortex")
    (folder / "transcripts").write_text("in the way")
    client.call("session/new", store=folder.parent.name, sessionId="helper")
    say(client, wire(folder, "helper"), ("user", "kept"))
    assert client.fails("session/save", sessionId=wire(folder, "helper"))["data"]["kind"] != "internalError"
    assert texts(client, wire(folder, "helper")) == ["kept"]
    (folder / "transcripts").unlink()
    client.call("session/save", sessionId=wire(folder, "helper"))
    assert cortex(folder, ["loadHistory", "helper"])["answers"][0][0]["content"] == "kept"
