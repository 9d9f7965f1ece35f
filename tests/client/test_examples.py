"""The programs in `examples/`, the doctests, and the programs in the documents: each is run unchanged."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from sessiond.client import connect
from tests.client.served import served_home
from tests.shell import ROOT
from tests.zygote import ForkedHome, Zygote

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TIMEOUT_S = 60


@pytest.fixture
def forked(zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkedHome]:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("SESSIOND_HOME", str(path))
    with served_home(zygote, path) as home:
        yield home


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "examples" / name), *arguments]


def run(name: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        command(name, *arguments), input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short() -> None:
    """Five programs of at most 40 lines."""
    assert len(EXAMPLES) == 5
    for path in EXAMPLES:
        assert path.read_text().count("\n") <= 40, path.name
        assert f"examples/{path.name}" in (ROOT / "docs" / "python.md").read_text()


def test_a_chat_loop(forked: ForkedHome) -> None:
    """Two lines, two replies, and a second run that continues in the same session."""
    first = run("chat.py", stdin="hello there\nand again\n").splitlines()
    session_id = first[0].removeprefix("session ")
    assert first[1:] == ["hello there ", "and again "]
    run("chat.py", session_id, stdin="third\n")
    with connect() as sessiond:
        told = [(one.role, one.text, one.status or "done") for one in sessiond.session(session_id).messages()]
    assert told == [
        ("user", "hello there", "done"),
        ("assistant", "hello there ", "done"),
        ("user", "and again", "done"),
        ("assistant", "and again ", "done"),
        ("user", "third", "done"),
        ("assistant", "third ", "done"),
    ]


def test_a_web_hook(forked: ForkedHome) -> None:
    """A post is stored, a repeated one adds nothing, and a bad one gets the reason."""
    with subprocess.Popen(command("webhook.py", "0"), stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()

        def post(path: str, text: str, key: str) -> str:
            request = urllib.request.Request(f"{address}{path}", text.encode(), {"Idempotency-Key": key})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return response.read().decode()

        try:
            assert [post("builds", "grün", "b1"), post("builds", "red", "b2"), post("builds", "grün", "b1")] == [
                "1\n",
                "2\n",
                "1\n",
            ]
            with pytest.raises(HTTPError) as bad:
                post("builds", "other", "b1")
            with bad.value as response:
                assert response.code == 400 and b"conflict" in response.read()
        finally:
            process.terminate()
    with connect() as sessiond:
        assert [one.text for one in sessiond.session("builds").messages()] == ["grün", "red"]


def test_a_watcher(forked: ForkedHome) -> None:
    """Prints what others say while they say it, and ends well when it is interrupted."""
    with (
        subprocess.Popen(command("watch.py"), stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
        connect() as sessiond,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        chat = sessiond.new(id="w", name="w")
        chat.append("user", "hello")
        assert process.stdout.readline() == "w  user: hello\n"
        with chat.stream("assistant", "so ") as reply:
            reply.write("be it")
        assert [process.stdout.readline() for _ in range(3)] == ["w  assistant: so \n", "w  ... be it\n", "w  (done)\n"]
        chat.delete()
        assert process.stdout.readline() == "w  (deleted)\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0


def test_a_nightly_export(forked: ForkedHome, tmp_path: Path) -> None:
    """The folder has the changed sessions; a second export is fine."""
    with connect() as sessiond:
        sessiond.new(id="one", name="One").append("user", "a wombat")
        sessiond.new(id="two", name="Two").append("user", "x")
        sessiond.save()
    for _ in range(2):
        run("export_nightly.py", str(tmp_path / "out"))
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["one.md", "two.md"]
    assert "a wombat" in (tmp_path / "out" / "one.md").read_text()


def test_a_migration(forked: ForkedHome, tmp_path: Path) -> None:
    """2,500 turns come over once, with their times, though it runs twice."""
    turns = [{"who": "me" if n % 2 else "bot", "said": f"turn {n}", "at": "2026-01-11T14:30:22Z"} for n in range(2500)]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"title": "Mine", "turns": turns}))
    for _ in range(2):
        assert run("migrate.py", str(path)) == "mine: 2500 messages\n"
    with connect() as sessiond:
        messages = sessiond.session("mine").messages()
        assert sessiond.session("mine").info().name == "Mine"
    assert [one.text for one in messages] == [f"turn {n}" for n in range(2500)]
    assert {one.role for one in messages} == {"user", "assistant"} and messages[
        0
    ].timestamp == "2026-01-11T14:30:22.000Z"


@pytest.mark.parametrize("name", ["sessiond.client", "sessiond.client.types"])
def test_doctests(forked: ForkedHome, name: str) -> None:
    """The examples in docstrings say what happens."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0


def programs(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_programs_in_documents(forked: ForkedHome, document: str) -> None:
    """Each runs by itself, with a model that says two words; one that follows changes is given some, and an end."""
    found = programs(document)
    assert found
    for text in found:
        exec(
            compile(with_an_end(text), document, "exec"),
            {"model": lambda messages: iter(["The ", "journal's."]), "print": lambda *_: None},
        )
    with connect() as sessiond:
        assert any(one.message_count for one in sessiond.sessions())


def with_an_end(text: str) -> str:
    """The program with `break` after the first change: what follows for ever would not end here."""
    return re.sub(
        r"^( *)(?:async )?for change in .*\n(?:\1    .*\n)+",
        lambda match: f"{match[0]}{match[1]}    break\n",
        text,
        flags=re.MULTILINE,
    )
