"""Agents that forget, and agents that remember: an editor gets the whole conversation again, and the model knows it."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, recorded
from tests.shell import Shell
from tests.suite.explore import seeds

_LIVES = seeds(few=1, usual=3)
_TOOL = {
    "user_message_chunk": "tool now",
    "agent_message_chunk": "I shall look.tool now ",
    "call": "c1",
    "result": "apple.txt",
}


def _whole(updates: list[dict[str, Any]]) -> dict[str, str]:
    """What an editor's buffer holds after these updates, by kind."""
    found: dict[str, str] = {}
    for one in updates:
        kind = one["sessionUpdate"]
        if kind.endswith("_chunk"):
            found[kind] = found.get(kind, "") + one["content"]["text"]
        if kind == "tool_call":
            found["call"] = found.get("call", "") + one["toolCallId"]
        if kind in ("tool_call", "tool_call_update") and one.get("status") == "completed":
            assert "call" in found
            found["result"] = found.get("result", "") + "".join(part["content"]["text"] for part in one["content"])
    return found


class Heard:
    """What the agents of a test were told."""

    def __init__(self, path: Path) -> None:
        self.options = [f"--heard={path / 'heard'}"]
        self._path = path / "heard"

    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path.read_text().splitlines()[-1])
        return found


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    return Heard(tmp_path)


def _first(shell: Shell, text: str = "tool now", options: list[str] | None = None, session: str = "s1") -> None:
    editor = Editor(shell, session, options=options or [])
    editor.begin()
    editor.until(editor.prompt(text))
    editor.end()


def test_an_agent_that_forgets_is_made_to_remember(shell: Shell, heard: Heard) -> None:
    """An agent without `list`, `load` and `resume` gets all three: the editor sees every text, call and result again, the model
    is told once, before the next prompt, and the session goes on as one.
    """
    _first(shell)
    editor = Editor(shell, "other", check=True, options=heard.options)
    offered = editor.initialize()
    assert offered["loadSession"] is True
    assert offered["sessionCapabilities"] == {"list": {}, "resume": {}}
    (listed,) = editor.call("session/list", cwd="/tmp")["result"]["sessions"]
    assert (listed["sessionId"], listed["title"], listed["cwd"]) == ("s1", "tool now", "/tmp")
    assert editor.call("session/list", cwd="/elsewhere")["result"]["sessions"] == []
    answer, updates = editor.load("s1")
    assert answer["result"]["models"]["currentModelId"] == "m-1"
    assert _whole(updates) == _TOOL
    assert editor.until(editor.prompt("second"))["result"]["stopReason"] == "end_turn"
    context, prompt = heard.last()["prompt"]
    assert prompt == "second"
    for said in (
        "User: tool now",
        "Assistant: I shall look.",
        'Tool call: ls {"command": "ls"}',
        "Tool result: apple.txt",
    ):
        assert said in context
    editor.until(editor.prompt("third"))
    assert heard.last()["prompt"] == ["third"]
    assert heard.last()["session"] == "other"
    editor.end()
    texts = [one.text for one in recorded(shell)]
    assert texts == ["tool now", "I shall look.", "", "apple.txt", "tool now ", "second", "second ", "third", "third "]


def test_a_resumed_session_is_not_repeated(shell: Shell, heard: Heard) -> None:
    """`session/resume` repeats nothing to the editor and tells the model all the same."""
    _first(shell)
    editor = Editor(shell, "other", options=heard.options)
    editor.initialize()
    answer, updates = editor.load("s1", "session/resume")
    assert "result" in answer
    assert updates == []
    editor.until(editor.prompt("second"))
    assert "User: tool now" in heard.last()["prompt"][0]


def test_a_session_that_nobody_knows(shell: Shell) -> None:
    """A session that is not recorded is refused with the protocol's own code, and the connection goes on."""
    editor = Editor(shell)
    editor.initialize()
    answer, _ = editor.load("nothing")
    assert answer["error"]["code"] == -32002
    assert "nothing is recorded of the session nothing" in answer["error"]["message"]
    editor.begin()
    assert editor.until(editor.prompt("now"))["result"]["stopReason"] == "end_turn"


def test_agent_mode_offers_nothing(shell: Shell) -> None:
    """With `--replay agent` the agent's capabilities reach the editor as they are."""
    assert Editor(shell, replay="agent").initialize() == {}


def test_sessiond_mode_asks_no_agent(shell: Shell, tmp_path: Path, heard: Heard) -> None:
    """With `--replay sessiond` an agent that could load is not asked to."""
    memory = [f"--memory={tmp_path / 'memory'}", "--can=load,resume,list"]
    _first(shell, options=memory)
    editor = Editor(shell, "other", replay="sessiond", options=[*memory, *heard.options])
    editor.initialize()
    _, updates = editor.load("s1")
    assert _whole(updates) == _TOOL
    editor.until(editor.prompt("second"))
    assert heard.last()["session"] == "other"
    assert "User: tool now" in heard.last()["prompt"][0]


@pytest.mark.parametrize("repeats", ["nothing", "texts", "tail", "all"])
def test_what_an_agent_leaves_out_is_added(shell: Shell, tmp_path: Path, heard: Heard, repeats: str) -> None:
    """An agent that loads a session and repeats nothing of it, or its texts only, or its end, is completed; it goes on in its own
    session and is told nothing that it knows.
    """
    options = [f"--memory={tmp_path / 'memory'}", "--can=load", *heard.options]
    editor = Editor(shell, options=options)
    editor.begin()
    editor.until(editor.prompt("before this"))
    editor.until(editor.prompt("tool now"))
    editor.end()
    editor = Editor(shell, "other", options=[*options, f"--repeats={repeats}"])
    editor.initialize()
    _, updates = editor.load("s1")
    assert _whole(updates) == {
        "user_message_chunk": "before thistool now", "agent_message_chunk": "before this I shall look.tool now ", "call": "c1",
        "result": "apple.txt",
    }  # fmt: skip
    editor.until(editor.prompt("second"))
    assert heard.last() == {"session": "s1", "known": ["before this", "tool now"], "prompt": ["second"]}
    editor.end()
    assert [one.text for one in recorded(shell) if one.role == "user"] == ["before this", "tool now", "second"]


def test_an_agent_that_knows_more_is_believed(shell: Shell, tmp_path: Path) -> None:
    """What an agent repeats of a turn that was never recorded reaches the editor."""
    memory = tmp_path / "memory"
    options = [f"--memory={memory}", "--can=load"]
    _first(shell, options=options)
    known = json.loads(memory.read_text())
    known["s1"].append({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "elsewhere"}})
    memory.write_text(json.dumps(known))
    editor = Editor(shell, "other", options=options)
    editor.initialize()
    _, updates = editor.load("s1")
    assert updates == known["s1"]


@pytest.mark.parametrize("seed", _LIVES)
def test_random_lives(shell: Shell, tmp_path: Path, heard: Heard, seed: int) -> None:
    """An agent of some ability is ended or killed, again and again, and goes on with sessions that began before: whoever loads one
    has all of it, and the model knows every earlier prompt, once.
    """
    dice = random.Random(seed)
    turns: dict[str, list[str]] = {}
    abilities = [name for name in ("load", "resume", "list") if dice.random() < 0.5]
    mode = dice.choice(["auto", "auto", "sessiond"])
    refuses = dice.random() < 0.3
    for process in range(6):
        repeats = "refuse" if refuses else dice.choice(["all", "nothing", "texts"])
        options = [
            f"--can={','.join(abilities)}",
            f"--memory={tmp_path / 'memory'}",
            f"--repeats={repeats}",
            *heard.options,
        ]
        editor = Editor(shell, f"p{process}", replay=mode, options=options)
        editor.initialize()
        if turns and dice.random() < 0.8:
            session = dice.choice(sorted(turns))
            method = dice.choice(["session/load", "session/load", "session/resume"])
            answer, updates = editor.load(session, method)
            assert "result" in answer, (answer, abilities, repeats)
            shown = _whole(updates)
            if method == "session/load":
                assert shown["user_message_chunk"] == "".join(turns[session])
                assert shown["agent_message_chunk"] == "".join(f"{one} " for one in turns[session])
            else:
                assert shown == {}
        else:
            editor.begin()
            turns[editor.session] = []
        for _ in range(dice.randrange(1, 3)):
            said = f"word{sum(map(len, turns.values()))}"
            editor.until(editor.prompt(said))
            last = heard.last()
            knows = [line for text in (*last["known"], *last["prompt"][:-1]) for line in text.splitlines()]
            knows = [line.removeprefix("User: ") for line in knows]
            assert [knows.count(one) for one in turns[editor.session]] == [1] * len(turns[editor.session])
            turns[editor.session].append(said)
        if dice.random() < 0.5:
            os.kill(editor.process.pid, signal.SIGKILL)
            editor.process.wait(30)
        else:
            editor.end()
    for session, said in turns.items():
        assert [one.text for one in recorded(shell, f"acp-{session}") if one.role == "user"] == said
