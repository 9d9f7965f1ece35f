"""The event loop is never blocked by a long session: nothing that grows with a session's length runs on it.

The daemon is the real one, with a stop-watch on its loop (`watched`). The limit is on the CPU time of the loop's thread in
one callback: a busy machine adds nothing to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.order.conftest import STILL
from tests.order.pipeline import Pipeline, user
from tests.order.watched import LOOP, WatchedHome

LONGEST_S = 0.05
LONGEST_COLLECTION_S = 0.2
"""In another thread than the loop's, which waits for it nevertheless."""
ANSWER_S = 90.0
"""Waits are not measured: a slow disk or a busy machine may take its time."""


def line(number: int, prefix: str) -> str:
    message = {
        "id": f"{prefix}{number}",
        "seq": number,
        "role": "user" if number % 2 else "assistant",
        "content": f"the {number}th word of a long talk about nothing in particular",
        "timestamp": "2026-01-11T14:30:23.000Z",
    }
    return json.dumps(message)


class LongFile:
    """A session's file as an editor has it."""

    def __init__(self, path: Path, count: int, prefix: str = "m") -> None:
        self.path = path
        header = {"sessiond": 1, "id": path.stem, "createdAt": "2026-01-11T14:30:22.000Z"}
        self.lines = [json.dumps(header), *(line(number, prefix) for number in range(1, count + 1))]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def read(self) -> None:
        self.lines = self.path.read_text().splitlines()

    def write(self) -> None:
        """In one go, as an editor does that replaces the file."""
        new = self.path.with_name("being-written")
        new.write_text("\n".join(self.lines) + "\n")
        os.replace(new, self.path)

    def grow(self, text: str) -> None:
        """As a shell does."""
        with self.path.open("a") as file:
            file.write(json.dumps({"role": "user", "content": text}) + "\n")


class Steps:
    """What kept the loop for too long, by the step that it was at."""

    def __init__(self, home: WatchedHome, client: Pipeline) -> None:
        self._home = home
        self._client = client
        self.stalled: list[str] = []

    def done(self, step: str) -> None:
        self._client.call("daemon/hello")
        for stall in self._home.stalls():
            if stall.seconds > (LONGEST_S if stall.where == LOOP else LONGEST_COLLECTION_S):
                self.stalled.append(f"{step}: {stall}")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedHome]:
    made = WatchedHome(tmp_path, STILL + "[limits]\nsettle_s = 0.02\n")
    yield made
    made.forget_clients()
    if made.process is not None:
        made.kill()


def begun(home: WatchedHome, word: str) -> Pipeline:
    """A connection to a daemon that has all that is there in its index, a message with `word` too."""
    home.start()
    client = home.pipeline(ANSWER_S)
    find(client, word)
    return client


def find(client: Pipeline, word: str) -> None:
    """Wait until the one message with `word` is found: a search says that it is incomplete while the index has a long session to take in."""
    deadline = time.monotonic() + ANSWER_S
    while client.call("session/search", query=word)["total"] != 1:
        assert time.monotonic() < deadline, "it is never found"


def edits(client: Pipeline, steps: Steps, file: LongFile, word: str) -> None:
    """Somebody adds a line, changes one, and removes a thousand, while the session is open."""
    file.grow("by hand")
    client.notification("session/reloaded")
    steps.done("a line more")
    file.read()
    file.lines[len(file.lines) // 2] = file.lines[len(file.lines) // 2].replace("word", word)
    file.write()
    client.notification("session/reloaded")
    steps.done("a line changed")
    del file.lines[-1000:]
    file.write()
    client.notification("session/reloaded")
    steps.done("a thousand lines less")


def test_10_an_outside_edit_of_40_000_messages_stalls_nobody(watched: WatchedHome) -> None:
    """An open session of 40,000 messages is edited from outside: no callback of the loop takes 50 ms."""
    file = LongFile(watched.path / "data" / "sessions" / "a.jsonl", 40_000)
    client = begun(watched, "39999th")
    client.call("session/open", sessionId="a")
    client.call("session/read", sessionId="a", since=0, limit=1)
    steps = Steps(watched, client)
    watched.stalls()
    edits(client, steps, file, "wxrd")
    assert not steps.stalled, "\n".join(steps.stalled)


@pytest.mark.timeout(400)
def test_nothing_that_is_done_to_100_000_messages_stalls_the_loop(watched: WatchedHome, tmp_path: Path) -> None:
    """A file of 100,000 messages is found and opened, edited from outside, searched, saved, cut, forked, deleted, restored and
    imported: no callback of the loop takes 50 ms.
    """
    file = LongFile(watched.path / "data" / "sessions" / "a.jsonl", 100_000)
    client = begun(watched, "99999th")
    steps = Steps(watched, client)

    def step(name: str, method: str, /, **params: object) -> None:
        client.call(method, **params)
        steps.done(name)

    steps.done("found")
    step("opened", "session/open", sessionId="a")
    step("read", "session/read", sessionId="a", since=0, limit=1000)
    edits(client, steps, file, "wxrd")
    for again in (1, 2):
        step("append", "session/append", sessionId="a", messages=[user(f"x{again}")])
        step("saved", "session/save", sessionId="a")
    find(client, "wxrd")
    step("searched", "session/search", query="word", limit=5)
    step("searched by regex", "session/search", query="99[0-9]+9th", mode="regex", limit=5)
    step("update", "session/update", sessionId="a", name="long")
    step("cut", "session/truncate", sessionId="a", afterSeq=98_000)
    step("saved whole", "session/save", sessionId="a")
    step("forked", "session/fork", sessionId="a")
    step("deleted", "session/delete", sessionId="a")
    step("restored", "session/restore", sessionId="a")
    step("imported", "session/import", path=str(LongFile(tmp_path / "elsewhere" / "b.jsonl", 100_000, "i").path))
    step("searched after that", "session/search", query="12345th")
    assert not steps.stalled, "\n".join(steps.stalled)
