"""Real agents with a fake model: what came in is what the model was sent and what it answered, in order, once.

Each gets a prompt that makes it call its shell, a second prompt that continues the conversation, and another conversation in a
process of its own. Its history is imported at once by one daemon, and followed by another while it is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import AGENTS, Agent, cache
from tests.agents.fake_model import FakeModel, Item
from tests.shell import Shell, wait_until

FIRST = "First prompt RUN ls"
SECOND = "Second prompt in Japanese 日本語"
THIRD = "Third prompt of another process"


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not (cache() / "complete").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the agents are not installed (sh tests/agents/install)")
        pytest.skip("the agents are not installed (sh tests/agents/install)")


@pytest.fixture(params=AGENTS, ids=str)
def agent(request: Any) -> Agent:
    found: Agent = request.param
    return found


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "a home"
    (path / "work").mkdir(parents=True)
    (path / "work" / "apple.txt").write_text("an apple\n")
    return path


@pytest.fixture
def shells(home: Path) -> Iterator[list[Shell]]:
    made = [Shell(HOME=str(home), CI=""), Shell(HOME=str(home), CI="")]
    yield made
    for shell in made:
        shell.close()


def items(messages: list[dict[str, Any]]) -> list[Item]:
    """A session's messages as the model would be sent them. What the tool put under the user's name is left out."""
    found: list[Item] = []
    for message in messages:
        text = plain(message["content"])
        if message["role"] == "tool":
            found.append(("result", text))
        elif message["role"] == "user" and not message.get("metadata", {}).get("injected"):
            found.append(("user", text.strip().strip('"')))  # opencode puts quotes around an argument with spaces
        elif message["role"] == "assistant":
            found += [("assistant", text)] if text else []
            for call in message.get("toolCalls", []):
                arguments = call["arguments"]
                value = json.loads(arguments) if isinstance(arguments, str) else arguments
                found.append(("call", call["name"], json.dumps(value, sort_keys=True)))
    return found


def plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))


def conversations(shell: Shell) -> dict[str, list[Item]]:
    """First prompt -> conversation, of all sessions that have one."""
    found = {}
    for info in shell("list", "--json").json["sessions"]:
        read = items(shell("show", info["sessionId"], "--json").json["messages"])
        prompts = [item[1] for item in read if item[0] == "user"]
        if prompts:
            assert prompts[0] not in found, "one conversation came in twice"
            found[prompts[0]] = read
    return found


def with_results_stripped(conversation: list[Item]) -> list[Item]:
    """White space at the ends of results is the tool's own."""
    return [(item[0], item[1].strip()) if item[0] == "result" else item for item in conversation]


def test_what_came_in_is_what_the_model_was_sent(
    agent: Agent, model: FakeModel, home: Path, shells: list[Shell]
) -> None:
    importing, following = shells
    following.write_config(f'[follow]\ntools = ["{agent.tool}"]\n')
    assert following("follow", "status").code == 0
    env, folder = agent.prepare(home, model.url), home / "work"
    agent.run(env, folder, FIRST)
    agent.run(env, folder, SECOND, again=True)
    agent.run(env, folder, THIRD)
    expected = {
        FIRST: with_results_stripped(model.conversation(FIRST)),
        THIRD: with_results_stripped(model.conversation(THIRD)),
    }
    kinds = [item[0] for item in expected[FIRST]]
    assert kinds == ["user", "assistant", "call", "result", "assistant", "user", "assistant"], expected
    assert "apple.txt" in expected[FIRST][3][1]

    done = importing("import", str(home / agent.place))
    assert done.code == 0, done
    imported = conversations(importing)
    assert {first: with_results_stripped(read) for first, read in imported.items()} == expected
    wait_until(lambda: conversations(following).keys() == expected.keys())
    wait_until(lambda: following("follow", "status", "--json").json["behind"] == 0)
    assert {first: with_results_stripped(read) for first, read in conversations(following).items()} == expected
    again = importing("import", str(home / agent.place), "--json").json
    assert again["sessions"] == []


def test_the_compaction_of_claude_code_takes_nothing_away(model: FakeModel, home: Path, shells: list[Shell]) -> None:
    """Its `/compact` begins a new tree in the same file: everything before stays in the conversation, none of it as a branch."""
    importing, following = shells
    claude = next(agent for agent in AGENTS if agent.name == "claude")
    following.write_config('[follow]\ntools = ["claude-code"]\n')
    assert following("follow", "status").code == 0
    env, folder = claude.prepare(home, model.url), home / "work"
    claude.run(env, folder, FIRST)
    before = with_results_stripped(model.conversation(FIRST))
    wait_until(lambda: [with_results_stripped(one) for one in conversations(following).values()] == [before])
    claude.run(env, folder, "/compact", again=True)
    claude.run(env, folder, SECOND, again=True)
    assert importing("import", str(home / claude.place)).code == 0
    [info] = importing("list", "--json").json["sessions"]
    messages = importing("show", info["sessionId"], "--json").json["messages"]
    read = with_results_stripped(items(messages))
    assert read[: len(before)] == before
    assert [item[1] for item in read if item[0] == "user" and "prompt" in item[1]] == [FIRST, SECOND]
    assert sum("continued from a previous conversation" in plain(message["content"]) for message in messages) == 1
    assert not any(key in message.get("metadata", {}) for message in messages for key in ("branch", "compacted"))

    def seen(shell: Shell) -> list[dict[str, Any]]:
        """Without seqs, which count what happened in that home."""
        shown = shell("show", info["sessionId"], "--json").json["messages"]
        return [{**message, "seq": 0} for message in shown]

    expected = seen(importing)
    wait_until(lambda: seen(following) == expected)
