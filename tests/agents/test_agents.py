"""Real agents with a fake model: what came in is what the model was sent and what it answered, in order, once.

Each gets a prompt that makes it call its shell, a second prompt that continues the conversation, and another conversation in a
process of its own. Its history is imported at once by one daemon, and followed by another while it is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest

from tests.agents.agents import AGENTS, GEMINI, Agent, cache
from tests.agents.compactions import is_summary
from tests.agents.fake_model import LOOKING, Item
from tests.agents.played import FIRST, SECOND, THIRD, Played

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not (cache() / "complete").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the agents are not installed (sh tests/agents/install)")
        pytest.skip("the agents are not installed (sh tests/agents/install)")


def items(messages: list[dict[str, Any]]) -> list[Item]:
    """A session's messages as the model would be sent them, and summaries. What the tool put under the user's name is left out."""
    found: list[Item] = []
    for message in messages:
        text = plain(message["content"])
        marks = message.get("metadata", {})
        if is_summary(message):
            found.append(("summary", text))
        elif message["role"] == "tool":
            found.append(("result", text.strip()))  # white space at the ends of results is the tool's own
        elif message["role"] == "user" and not marks.get("injected") and not _asks_for_a_summary(message):
            found.append(("user", text.strip().strip('"')))  # opencode puts quotes around an argument with spaces
        elif message["role"] == "assistant" and not marks.get("checkpoint"):
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


def _asks_for_a_summary(message: dict[str, Any]) -> bool:
    """opencode's own prompt has no words; Claude Code's command is told with what it printed."""
    content = message["content"]
    asks = isinstance(content, list) and all(block.get("type") == "compaction" for block in content)
    return asks or "command" in message.get("metadata", {})


def conversations(sessions: Iterable[dict[str, Any]]) -> dict[str, list[Item]]:
    """First prompt -> conversation, of all sessions that have one."""
    found = {}
    for session in sessions:
        read = items(session["messages"])
        prompts = [item[1] for item in read if item[0] == "user"]
        if prompts:
            assert prompts[0] not in found, "one conversation came in twice"
            found[prompts[0]] = read
    return found


def with_results_stripped(conversation: list[Item]) -> list[Item]:
    return [(item[0], item[1].strip()) if item[0] == "result" else item for item in conversation]


def sent_before(played: Played) -> dict[str, list[Item]]:
    """What the model was sent and answered before a compaction. Gemini CLI sends a result twice after a resume."""
    found = {first: with_results_stripped(said) for first, said in played.sent["talk"].items()}
    if played.agent.name == "gemini":
        found = {first: [item for item, _ in groupby(said)] for first, said in found.items()}
    return found


@pytest.mark.parametrize("agent", [*AGENTS, GEMINI], ids=str)
def test_what_came_in_is_what_the_model_was_sent(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> None:
    played = Played(tmp_path_factory, agent)
    expected = sent_before(played)
    shell, arguments = expected[FIRST][2][1:]
    assert "ls" in json.dumps(json.loads(arguments))
    result = expected[FIRST][3][1]
    # On a busy machine Qwen Code may lose what a short command prints, and tells its model so.
    assert "apple.txt" in result or (agent.name == "qwen" and "Output: (empty)" in result)
    assert expected == {
        FIRST: [
            ("user", FIRST), ("assistant", LOOKING), ("call", shell, arguments), ("result", result), ("assistant", f"Answer 1: {FIRST}"),
            ("user", SECOND), ("assistant", f"Answer 2: {SECOND}"),
        ],
        THIRD: [("user", THIRD), ("assistant", f"Answer 1: {THIRD}")],
    }  # fmt: skip
    assert conversations(played.imported["talk"]) == expected
    assert conversations(played.followed["call"]) == {FIRST: expected[FIRST][:5]}, (
        "it came in before the next process began"
    )
    assert played.followed["talk"] == played.imported["talk"]
    assert played.again == []
