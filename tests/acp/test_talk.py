"""The recorder's core: pieces of a conversation become steps, whatever the pieces are."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.acp.content import PRINTED
from sessiond.acp.lines import Lines
from sessiond.acp.recorder import together
from sessiond.acp.spool import AGENT, EDITOR
from sessiond.acp.steps import Ended, Grew, Said, Step
from sessiond.acp.talk import Talk

_words = st.sampled_from([
    "agent_message_chunk", "user_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
    "current_mode_update", "config_option_update", "usage_update", "session_info_update", "unknown",
])  # fmt: skip
_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "id"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_texts = st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=8)})
_updates = st.fixed_dictionaries(
    {"sessionUpdate": _words},
    optional={
        "content": _texts | _values, "toolCallId": st.sampled_from(["a", "b"]) | _values, "rawInput": _values, "title": _values,
        "status": st.sampled_from(["pending", "completed", "failed"]) | _values, "entries": _values, "configOptions": _values,
    },
)  # fmt: skip
_methods = st.sampled_from(
    [
        "initialize",
        "session/new",
        "session/load",
        "session/prompt",
        "session/update",
        "session/request_permission",
        "other",
    ]
)
_params = st.fixed_dictionaries(
    {},
    optional={"sessionId": st.sampled_from(["s", "t"]) | _values, "update": _updates, "prompt": st.lists(_texts, max_size=2) | _values,
              "toolCall": _values, "options": _values},
)  # fmt: skip
_messages = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 3) | _values,
        "method": _methods,
        "params": _params | _values,
        "result": _params | _values,
        "error": _values,
    },
)
_lines = st.one_of(_messages.map(lambda one: json.dumps(one).encode()), st.binary(max_size=12)).map(
    lambda one: one + b"\n"
)
_said = st.lists(st.tuples(st.sampled_from([EDITOR, AGENT]), _lines), max_size=30)


def _steps(said: list[tuple[bytes, bytes]], sizes: list[int]) -> list[Step]:
    talk, found, n = Talk("n", "agent"), [], 0
    for kind, line in said:
        at = 0
        while at < len(line):
            size = sizes[n % len(sizes)]
            n += 1
            found += talk.feed(kind, 1000, line[at : at + size])
            at += size
    return [*found, *talk.end(2000)]


@settings(max_examples=150)
@given(_said, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_cuts_change_nothing(said: list[tuple[bytes, bytes]], sizes: list[int]) -> None:
    """Any messages, with any values anywhere, bring the same steps however they are cut; every message has an id of its own,
    and none is left open.
    """
    steps = _steps(said, [10_000])
    assert _steps(said, sizes) == steps
    ids = [step.message.id for step in steps if isinstance(step, Said)]
    assert len(ids) == len(set(ids))
    opened = [step.message.id for step in steps if isinstance(step, Said) and step.message.status == "streaming"]
    ended = [step.message_id for step in steps if type(step).__name__ == "Ended"]
    assert sorted(map(str, opened)) == sorted(ended)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=3))))
def test_pieces_that_are_put_together_are_the_same_text(pieces: list[tuple[str, str]]) -> None:
    """Neighbouring pieces of a text become one, and no text changes."""
    steps = [Grew(key="s", message_id=which, text=text) for which, text in pieces]
    after = list(together(iter(steps)))
    for which in "ab":
        assert "".join(one.text for one in after if one.message_id == which) == "".join(
            t for w, t in pieces if w == which
        )  # type: ignore[attr-defined]
    assert all(one.message_id != two.message_id for one, two in pairwise(after))  # type: ignore[attr-defined]


@given(st.lists(st.binary(max_size=20)), st.integers(0, 8))
def test_long_lines_are_dropped_alone(pieces: list[bytes], most: int) -> None:
    """A line over the limit is left out; the lines around it are whole."""
    lines = Lines(most)
    found = [line for piece in pieces for line in lines.feed(piece)]
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert found == [line for line in whole if len(line) <= most]
    assert lines.dropped == len(whole) - len(found)


@given(st.lists(st.tuples(st.sampled_from(PRINTED), st.text(max_size=4)), max_size=5), st.booleans())
def test_what_a_terminal_shows_is_the_result(pieces: list[tuple[str, str]], again: bool) -> None:
    """An agent that tells what a command prints beside the protocol, in pieces, for a terminal of the editor: all of it is the
    result, and the call keeps the name that its first update gave it.
    """
    terminal = {"content": [{"type": "terminal", "terminalId": "a"}], "_meta": {"claudeCode": {"toolName": "Bash"}}}
    updates = [{"sessionUpdate": "tool_call", "toolCallId": "a", "status": "pending", **terminal}]
    updates += [{"sessionUpdate": "tool_call_update", "toolCallId": "a", "_meta": {name: {"terminal_id": "a", "data": text}}}
                for name, text in pieces]  # fmt: skip
    updates.append({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed", "_meta": {"x": 1}})
    if again:
        updates[-1]["content"] = terminal["content"]
    params = [{"sessionId": "s", "update": update} for update in updates]
    lines = [json.dumps({"method": "session/update", "params": one}).encode() + b"\n" for one in params]
    steps = _steps([(AGENT, line) for line in lines], [10_000])
    (result,) = [step.message for step in steps if isinstance(step, Said) and step.message.role == "tool"]
    printed = "".join(text for _, text in pieces)
    assert result.content == (printed or terminal["content"])
    (ended,) = [step for step in steps if isinstance(step, Ended)]
    assert [call.name for call in ended.tool_calls] == ["Bash"]
