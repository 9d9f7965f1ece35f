"""The checker of bodies for models rejects what it should."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.exporters.api_rules import anthropic_faults, openai_faults, tools_words

OPENAI: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "a pear"},
        {"role": "tool", "tool_call_id": "c2", "content": "a plum"},
        {"role": "assistant", "content": [{"type": "text", "text": "Fruit."}]},
    ]
}  # fmt: skip
ANTHROPIC: dict[str, Any] = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is here?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "a pear"}, {"type": "text", "text": "And?"},
        ]},
    ],
}  # fmt: skip
Spoil = Callable[[list[Any]], object]


def test_what_is_right_has_no_faults() -> None:
    assert openai_faults(OPENAI) == []
    assert anthropic_faults(ANTHROPIC) == []


BAD_OPENAI: dict[str, Spoil] = {
    "a result that does not follow its call": lambda m: m.insert(3, m.pop(4)),
    "a call without a result": lambda m: m.pop(4),
    "an empty result": lambda m: m[3].update(content=""),
    "an unknown role: developer": lambda m: m[0].update(role="developer"),
    "an empty message": lambda m: m[1].update(content=""),
    "an empty text": lambda m: m[5].update(content=[{"type": "text", "text": " "}]),
    "an unknown part: thinking": lambda m: m[5].update(content=[{"type": "thinking"}]),
    "a call of somebody else's": lambda m: m[2].update(role="user"),
    "an id or a name that the API refuses": lambda m: m[2]["tool_calls"][0]["function"].update(name="a b"),
    "two calls with one id": lambda m: (m[2]["tool_calls"][1].update(id="c1"), m[4].update(tool_call_id="c1")),
    "arguments that are not an object": lambda m: m[2]["tool_calls"][0]["function"].update(arguments="[]"),
}


@pytest.mark.parametrize("fault", BAD_OPENAI)
def test_what_openai_refuses(fault: str) -> None:
    body = copy.deepcopy(OPENAI)
    BAD_OPENAI[fault](body["messages"])
    assert fault in openai_faults(body)


def test_a_call_at_the_end_has_no_result() -> None:
    assert openai_faults({"messages": OPENAI["messages"][:4]}) == ["a call without a result"]
    assert anthropic_faults({"messages": ANTHROPIC["messages"][:2]}) == ["a call without a result"]
    assert anthropic_faults({**ANTHROPIC, "system": " "}) == ["an empty system prompt"]


USE = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
BAD_ANTHROPIC: dict[str, Spoil] = {
    "roles that do not alternate from the user on": lambda m: m.pop(0),
    "an empty message": lambda m: m[0].update(content=[]),
    "results that are not those of the calls before them": lambda m: m[2]["content"].pop(0),
    "a result after other words": lambda m: m[2]["content"].reverse(),
    "an empty text": lambda m: m[0]["content"][0].update(text="\n"),
    "an empty result": lambda m: m[2]["content"][0].update(content=""),
    "a result of somebody else's": lambda m: m[2].update(role="assistant"),
    "a call of somebody else's": lambda m: m[1].update(role="user"),
    "an unknown part: thinking": lambda m: m[1]["content"].append({"type": "thinking"}),
    "an id or a name that the API refuses": lambda m: m[1]["content"][0].update(name=""),
    "two calls with one id": lambda m: m[1]["content"].append(USE),
    "arguments that are not an object": lambda m: m[1]["content"][0].update(input=[]),
}


@pytest.mark.parametrize("fault", BAD_ANTHROPIC)
def test_what_anthropic_refuses(fault: str) -> None:
    body = copy.deepcopy(ANTHROPIC)
    BAD_ANTHROPIC[fault](body["messages"])
    assert fault in anthropic_faults(body)


NOTICE = "The window was compacted just now."


@pytest.mark.parametrize("told", [
    {"role": "user", "content": NOTICE, "metadata": {"injected": True}},
    {"role": "assistant", "content": [{"type": "text", "text": NOTICE}], "metadata": {"superseded": True}},
    {"role": "tool", "content": NOTICE},
    {"role": "system", "content": NOTICE},
    {"role": "developer", "content": NOTICE},
])  # fmt: skip
def test_a_tools_words_in_somebodys_mouth(told: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": f"I say: {NOTICE}"}]}
    [fault] = tools_words({}, [told], body)
    assert NOTICE in fault
    said = {"role": "user", "content": f"I say: {NOTICE}"}
    assert tools_words({}, [told, said], body) == [], "the person said it as well"
    assert tools_words({}, [told], {"messages": [{"role": "tool", "content": NOTICE}]}) == []
