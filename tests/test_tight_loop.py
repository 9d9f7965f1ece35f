"""The system's own writer and the daemon on one file at the same time, as fast as both can: nothing of either is lost, nothing appears twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Client, Home

THEIRS = 40
OURS = 40


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "home").mkdir()
    # Saved all the time, so that both sides really write the file.
    with Home(tmp_path / "home", config="[autosave]\nidle_s = 0.01\n[limits]\nsettle_s = 0.02\n") as home:
        yield home


class TheiaPage:
    """Keeps its state in memory and writes the whole blob after every run; reads it only once."""

    name = "p.json"
    format = "theia"
    session = "p"

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.name
        self.messages: list[dict[str, str]] = [{"role": "user", "content": "begin"}]
        self.write()

    def say(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})
        self.write()

    def write(self) -> None:
        self.path.write_text(
            json.dumps({"messages": self.messages, "plan": None, "savedAt": "2026-01-11T14:30:22.000Z"})
        )


class AgentQBuffer(TheiaPage):
    """The same with a plist."""

    name = "session-20260111-143022.el"
    format = "agent-q"
    session = "session-20260111-143022"

    def write(self) -> None:
        shown = "\n".join(
            f'(:id "q{n}" :role {m["role"]} :content "{m["content"]}" :timestamp (26979 {n} 0 0) :context-snapshot nil :metadata nil)'
            for n, m in enumerate(self.messages)
        )
        self.path.write_text(
            f';; -*- mode: emacs-lisp; lexical-binding: t; -*-\n;; Agent-Q Session\n\n(:version 1 :id "{self.session}" :name nil'
            f" :created-at (26979 1 0 0) :updated-at (26979 2 0 0) :model nil :messages ({shown}) :metadata nil)\n"
        )


class CortexRun:
    """Appends a line for each message."""

    name = "transcripts/p/transcript.jsonl"
    format = "cortex"
    session = "p"

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.name
        self.path.parent.mkdir(parents=True)
        self.say("begin", role="user")

    def say(self, text: str, role: str = "assistant") -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"role": role, "content": text, "timestamp": 1_768_141_822_000}) + "\n")


@pytest.mark.parametrize("system", [TheiaPage, AgentQBuffer, CortexRun], ids=lambda system: system.format)
def test_nothing_of_either_writer_is_lost(home, tmp_path, system):
    """Forty messages from each side come together in one session and in one file."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    writer = system(folder)
    client = home.client()
    client.call("store/adopt", path=str(folder), name="s", format=system.format)
    wire_id = f"s/{system.session}"
    client.call("session/open", sessionId=wire_id)

    def theirs() -> None:
        for n in range(THEIRS):
            writer.say(f"theirs-{n}")
            time.sleep(0.03)  # the pace of a fast model, not a wait for the daemon

    thread = threading.Thread(target=theirs)
    thread.start()
    for n in range(OURS):
        client.call(
            "session/append", sessionId=wire_id, messages=[{"id": f"o{n}", "role": "user", "content": f"ours-{n}"}]
        )
        time.sleep(0.02)
    thread.join()
    wanted = {"begin", *(f"theirs-{n}" for n in range(THEIRS)), *(f"ours-{n}" for n in range(OURS))}
    deadline = time.monotonic() + 20
    while (found := said(client, wire_id)) != sorted(wanted):
        assert time.monotonic() < deadline, (sorted(wanted - set(found)), found)
        time.sleep(0.1)
    client.call("session/save", sessionId=wire_id)
    content = writer.path.read_text()
    assert all(content.count(f'"{text}"') == 1 for text in wanted), [t for t in wanted if content.count(f'"{t}"') != 1]


def said(client: Client, wire_id: str) -> list[str]:
    return sorted(
        message["content"] for message in client.call("session/read", sessionId=wire_id, last=1000)["messages"]
    )
