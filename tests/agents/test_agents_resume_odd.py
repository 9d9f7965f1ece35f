"""`sessiond resume` of an awkward session, with real agents: the model gets a valid conversation with all that was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.agents import RESUMED, Agent
from tests.agents.lab import Lab, only, stripped
from tests.agents.test_agents import installed

__all__ = ["installed"]  # a fixture
PROMPT = "Third prompt of the copy"
CUT_OFF = "(no result: the call was cut off)"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SIZES = {"gemini": 150_000}
"""Gemini CLI sends the beginnings of older results only, if they are larger than 50,000 tokens together."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


def call(call_id: str, name: str = "ls", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def awkward(size: int) -> list[dict[str, Any]]:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    return [
        {"role": "user", "content": "Before the compaction."},
        {"role": "assistant", "content": "Also before it."},
        {"role": "system", "content": "The summary of what was before.", "metadata": {"compaction": True}},
        {"role": "user", "content": "最初の質問: どの鍵が先ですか。"},
        {"role": "assistant", "content": "Two at once.", "toolCalls": [call("p1", path="one"), call("p2", path="two")]},
        {"role": "tool", "content": "result of the second", "toolCallId": "p2"},
        {"role": "tool", "content": "result of the first", "toolCallId": "p1"},
        {"role": "assistant", "content": "A big one.", "toolCalls": [call("big", path="big")]},
        {"role": "tool", "content": "x" * size + " end of it", "toolCallId": "big"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "A branch that was left.", "metadata": {"branch": True}},
        {"role": "assistant", "content": "An answer on that branch.", "metadata": {"branch": True}},
        {"role": "user", "content": "What a subagent was asked.", "metadata": {"sidechain": True}},
        {"role": "user", "content": " \n"},
        {"role": "user", "content": [{"type": "text", "text": "See this picture."}, picture]},
        {"role": "assistant", "content": "An answer that was interr", "status": "interrupted"},
        {"role": "user", "content": "Again, with an id that was used, and an odd name."},
        {"role": "assistant", "content": "", "toolCalls": [call("p1", "mcp.tool:x y", path="three")]},
        {"role": "tool", "content": "result of the third", "toolCallId": "p1"},
        {"role": "assistant", "content": "And one that was cut off.", "toolCalls": [call("cut", path="four")]},
        {"role": "user", "content": "Why did you stop?"},
        {"role": "assistant", "content": "I was stopped."},
    ]


def wanted(size: int) -> list[tuple[str, ...]]:
    def called(path: str, name: str = "ls") -> tuple[str, ...]:
        return "call", name, json.dumps({"path": path})

    return [
        ("user", "The summary of what was before."),
        ("user", "最初の質問: どの鍵が先ですか。"),
        ("assistant", "Two at once."),
        called("one"),
        called("two"),
        ("result", "result of the first"),
        ("result", "result of the second"),
        ("assistant", "A big one."),
        called("big"),
        ("result", "x" * size + " end of it"),
        ("user", "See this picture."),
        ("picture", PNG),
        ("assistant", "An answer that was interr"),
        ("user", "Again, with an id that was used, and an odd name."),
        called("three", "mcp_tool_x_y"),
        ("result", "result of the third"),
        ("assistant", "And one that was cut off."),
        called("four"),
        ("result", CUT_OFF),
        ("user", "Why did you stop?"),
        ("assistant", "I was stopped."),
    ]


LEFT_OUT = (
    "Before the compaction.",
    "Also before it.",
    "A branch that was left.",
    "An answer on that branch.",
    "What a subagent was asked.",
)


@pytest.mark.parametrize("agent", RESUMED, ids=str)
def test_an_awkward_session_goes_on(lab: Lab, agent: Agent) -> None:
    """A compaction, parallel calls answered in the other order, 2 MB of output, a branch, a subagent, empty messages, a picture, an
    interrupted reply, Japanese, an id twice, a name that no API takes, a cut-off call: what a model must know, once, in order.
    """
    size = SIZES.get(agent.name, 2_000_000)
    session_id = lab.new(awkward(size), "An awkward one")
    copied = lab.copy(session_id, agent)
    sent = lab.go_on(agent, copied, PROMPT)
    assert only(wanted(size), sent) == stripped(wanted(size))
    said = {item[-1] for item in sent}
    assert not said & set(LEFT_OUT)
    assert not any(item[0] == "user" and not item[-1].strip() for item in sent)
    lost = {one["what"]: one["count"] for one in copied["lost"]}
    assert lost == {
        "messages before a compaction, which its summary stands for": 2,
        "messages of abandoned branches": 2,
        "messages of subagents": 1,
        "results of calls that were cut off": 1,
    }


LIKE_THEIR_OWN = [
    "/help me", "/compact", "?what", "@apple.txt see", "!ls", "# AGENTS.md instructions for x", "Caveat: it is so",
    "[Request interrupted by user]", "No response requested.", "Continue from where you left off.", "API Error: x",
    *(
        f"<{name}>words</{name}>"
        for name in (
            "system-reminder", "command-name", "environment_context", "user_instructions", "session_context", "hook_context",
            "state_snapshot", "local-command-stdout", "turn_aborted", "bash-input", "task-notification", "thinking",
        )
    ),
]  # fmt: skip
"""What agents take for commands, or put into a conversation themselves and leave out again."""


@pytest.mark.parametrize("agent", RESUMED, ids=str)
def test_texts_that_look_like_an_agents_own_go_on(lab: Lab, agent: Agent) -> None:
    """They are said by a person, or by a model, in the session; the next model is sent each of them, in order."""
    said = [(role, f"{text} {role}") for text in LIKE_THEIR_OWN for role in ("user", "assistant")]
    said += [(role, text) for text in LIKE_THEIR_OWN for role in ("user", "assistant")]
    session_id = lab.new([{"role": role, "content": text} for role, text in said], "Like its own")
    copied = lab.copy(session_id, agent)
    assert copied["lost"] == []
    assert only(said, lab.go_on(agent, copied, PROMPT)) == stripped(said)
