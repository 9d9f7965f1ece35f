"""An append that is answered before the loop knows of it: a request after the answer still sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Home

NEVER_TOLD = (
    "import sys, sessiond.journal.writer as writer; writer._MOMENT_S = 600.0;"
    "sys.argv = ['sessiond', 'serve'];"
    "from sessiond.__main__ import main; main()"
)
"""A daemon whose loop is never woken for a lone append: it learns of one only when somebody asks for something."""


class Sleepy(Home):
    def spawn(self) -> subprocess.Popen[bytes]:
        with open(self.path / "daemon.err", "ab") as log:
            command = [sys.executable, "-c", NEVER_TOLD]
            return subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@pytest.fixture
def sleepy(tmp_path: Path) -> Iterator[Sleepy]:
    with Sleepy(tmp_path) as one:
        yield one


def said(client, text: str) -> dict:
    return client.call("session/append", sessionId="s", messages=[{"role": "user", "content": text}])


def test_another_connection_sees_what_was_answered(sleepy):
    """In every way to ask: a page, a list, a search, opening it, its state, and the same from the same connection."""
    one, other = sleepy.client(), sleepy.client()
    one.call("session/new", sessionId="s")
    for number in range(20):
        assert said(one, f"word{number}")["seq"] == number + 1
        if number % 5 == 0:
            assert other.call("session/read", sessionId="s", last=1)["messages"][0]["content"] == f"word{number}"
        elif number % 5 == 1:
            assert other.call("session/list")["sessions"][0]["messageCount"] == number + 1
        elif number % 5 == 2:
            assert other.call("session/search", query=f"word{number}")["hits"]
        elif number % 5 == 3:
            assert other.call("session/open", sessionId="s", last=1)["session"]["seq"] == number + 1
            other.call("session/close", sessionId="s")
        else:
            assert one.call("session/list")["sessions"][0]["messageCount"] == number + 1


def test_a_save_of_everything_finds_what_was_answered(sleepy):
    """It looks at what is dirty in the turn in which it is read."""
    one, other = sleepy.client(), sleepy.client()
    one.call("session/new", sessionId="s")
    for number in range(5):
        said(one, f"word {number}")
        assert [saved["sessionId"] for saved in other.call("session/save")["saved"]] == ["s"]


def test_who_has_it_open_is_told_without_asking(sleepy):
    """Another one who has it open waits for the change, so the loop hears of it at once."""
    one, other = sleepy.client(), sleepy.client()
    one.call("session/new", sessionId="s")
    other.call("session/open", sessionId="s")
    for number in range(10):
        said(one, f"word {number}")
        change = other.notification("session/changed")
        assert change["seq"] == number + 1


def test_what_was_answered_is_saved_when_the_daemon_stops(sleepy):
    """A stop finds an answer that the loop has not heard of."""
    one = sleepy.client()
    one.call("session/new", sessionId="s")
    said(one, "the last word")
    sleepy.stop()
    assert any("the last word" in path.read_text() for path in sleepy.path.rglob("*.jsonl"))


def test_a_session_that_was_just_loaded(sleepy):
    """Its first append is seen by a save of everything, and by lists, over another connection."""
    one, other = sleepy.client(), sleepy.client()
    for number in range(8):
        name = f"cold{number}"
        one.call("session/new", sessionId=name, messages=[{"role": "user", "content": "before"}])
        one.call("session/save")
        one.call("session/close", sessionId=name)
    sleepy.stop()
    sleepy.start()
    one, other = sleepy.client(), sleepy.client()
    for number in range(8):
        name = f"cold{number}"
        one.call("session/append", sessionId=name, messages=[{"role": "user", "content": "after"}])
        assert [saved["sessionId"] for saved in other.call("session/save")["saved"]] == [name]


def test_those_who_wait_behind_an_append_are_woken(sleepy):
    """Requests that come while it is made durable: on the same session or another, over the same connection or another."""
    one, other = sleepy.client(), sleepy.client()
    one.call("session/new", sessionId="s")
    one.call("session/new", sessionId="t")
    message = [{"role": "user", "content": "x"}]
    for _ in range(30):
        asked = [(one, one.send("session/append", {"sessionId": "s", "messages": message}))]
        asked.append((other, other.send("session/read", {"sessionId": "s", "last": 1})))
        asked.append((other, other.send("session/append", {"sessionId": "t", "messages": message})))
        asked.append((one, one.send("session/list", {})))
        asked.append((one, one.send("session/append", {"sessionId": "s", "messages": message})))
        for client, request in asked:
            assert "result" in client.answer(request)
