"""Copies of generated conversations: each target's own importer gives back what was said, in order, once."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import TARGETS, in_home

from sessiond.errors import InvalidParams
from sessiond.exporters.conversation import ExportedTurn
from sessiond.importers.record import MessageRecord
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.resume.check import plain
from sessiond.resume.make import make
from sessiond.resume.selection import selected
from tests.suite.explore import tries

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PICTURES = st.sampled_from(
    [
        PNG, PNG, {"type": "image", "source": {"type": "base64", "data": "aGk="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "aGk="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "no base64"}},
        {"type": "image", "source": {"type": "file", "file_id": "f1"}}, {"type": "image", "source": {"type": "url"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}, {"type": "image"},
        {"type": "image_url", "image_url": "file:///a.png"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
    ]
)  # fmt: skip
SHAPES = st.sampled_from(
    [
        "{}", "# {}", "> {}", "#### {}  ", "# aider chat started at 2026-01-01 00:00:00\n{}", "<system-reminder>{}</system-reminder>",
        "<command-name>{}</command-name>", "/{}", "?{}", '<user_input mode="act">{}</user_input>', "<environment_context>{}",
        "<session_context>{}", "<state_snapshot>{}", "{}\r\nb", "a\u2028# {}", "a\x0b> {}\x85", "\x00{}\x1b[31m", "日本語 𝄞 {}",
        "  {}  ", "\n\n{}\n\n", "{}\n\n#### b  \n> c\n# d", "# AGENTS.md instructions {}", "[Request interrupted by user]{}",
        '{{"type":"user","x":"{}"}}', "$ {}\n", "\u2060{}",
    ]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["c1", "c2", "c3", "", "a b/ü", "x" * 90, "call|fc_1"])
NAMES = st.sampled_from(["ls", "", "mcp.tool:x", "n" * 99, "読む", "multi_tool_use.parallel"])
ARGUMENTS = (
    st.dictionaries(st.text(max_size=5), JSON, max_size=3)
    | JSON.map(json.dumps)
    | st.sampled_from(["", "no JSON", "{"])
)
CALLS = st.lists(st.fixed_dictionaries({"id": IDS, "name": NAMES, "arguments": ARGUMENTS}), max_size=3)
MARKS = st.sampled_from([{}, {}, {}, {}, {"injected": True}, {"branch": True}, {"sidechain": True}, {"isError": True}])


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Messages with numbered words, in any order of roles; calls with results, without, with repeated ids; pictures."""
    made = []
    for number in range(draw(st.integers(1, 10))):
        role = draw(st.sampled_from(["user", "user", "assistant", "assistant", "tool", "tool", "system", "developer"]))
        said = draw(st.sampled_from(["", " \n", *["word"] * 6]))
        text = draw(SHAPES).format(f"word{number}") if said == "word" else said
        shown = draw(PICTURES)
        content = draw(
            st.sampled_from(
                [text, text, [{"type": "text", "text": text}, shown], [shown], [{"type": "odd", "value": text}]]
            )
        )
        rest: dict[str, Any] = {"metadata": draw(MARKS)}
        if role == "assistant":
            rest["toolCalls"] = draw(CALLS)
            rest["thinking"] = draw(st.sampled_from([None, "hm"]))
        if role == "tool":
            rest["toolCallId"] = draw(IDS)
        moment = f"2026-01-{draw(st.integers(1, 28)):02}T00:00:00.000Z"
        made.append(Message(id=f"m{number}", seq=number + 1, role=role, content=content, timestamp=moment, rest=rest))
    return made


def session_of(messages: list[Message]) -> Session:
    made = Session("a-session", "2026-01-01T00:00:00.000Z")
    made.name, made.model = "A name: 日本", "a-model"
    for message in messages:
        made.add_message(message)
    made.seq = len(messages)
    return made


def words(value: Any) -> list[str]:
    return re.findall(r"word\d+", json.dumps(value))


EXAMPLES = tries(few=10, usual=25)


def copied(name: str, messages: list[Message], *, calls: bool = True) -> tuple[list[ExportedTurn], list[Any]] | None:
    """What was told, and what the importer says of the copy; None if there is nothing to tell."""
    session = session_of(messages)
    with tempfile.TemporaryDirectory() as folder:
        place = in_home(name, Path(folder))
        try:
            told = selected(session)
        except InvalidParams:
            return None
        if not (calls and place.calls) and not any(turn.blocks for turn in told.turns):
            return None
        made = make(place, session, "a-session", told, folder, calls=calls)
        assert made.written is not None
        events = [one.message for one in place.read(made.written) if isinstance(one, MessageRecord)]
    return told.turns, events


@pytest.mark.parametrize("name", TARGETS)
@given(messages=conversations())
@settings(max_examples=EXAMPLES)
def test_any_conversation_is_copied_as_it_was_said(name: str, messages: list[Message]) -> None:
    """`make` compares turn by turn; here the words of what the importer says are those of the session, in order."""
    found = copied(name, messages)
    if found is None:
        return
    turns, events = found
    said = [word for turn in turns for word in words(turn.blocks)]
    assert [word for one in events if one["role"] != "tool" for word in words(one["content"])] == said
    results = [word for turn in turns for call in turn.calls for word in words(call.result)]
    there = [word for one in events if one["role"] == "tool" for word in words(one["content"])]
    assert there == (results if name != "aider" else [])


@pytest.mark.parametrize("name", TARGETS)
def test_a_picture_that_no_model_takes_is_told_with_the_text_of_its_result(name: str) -> None:
    """A result of a text and a place in which a picture was is one text: Gemini CLI keeps no more of it."""
    call = {"id": "c1", "name": "ls", "arguments": {}}
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "aGk="}}
    at = "2026-01-01T00:00:00.000Z"
    said = [{"type": "text", "text": "word2"}, picture]
    messages = [
        Message(id="m0", seq=1, role="user", content="word0", timestamp=at),
        Message(id="m1", seq=2, role="assistant", content="", timestamp=at, rest={"toolCalls": [call]}),
        Message(id="m2", seq=3, role="tool", content=said, timestamp=at, rest={"toolCallId": "c1"}),
    ]
    assert copied(name, messages) is not None


@pytest.mark.parametrize("name", TARGETS)
@given(messages=conversations())
@settings(max_examples=max(5, EXAMPLES // 5))
def test_a_copy_without_tools_has_every_text(name: str, messages: list[Message]) -> None:
    found = copied(name, messages, calls=False)
    if found is None:
        return
    turns, events = found
    assert not any(one.get("toolCalls") for one in events)
    said = [word for turn in turns for word in words(turn.blocks)]
    assert [word for one in events for word in words(one["content"])] == said


@given(messages=conversations(), last=st.integers(1, 12))
def test_the_last_messages_are_whole(messages: list[Message], last: int) -> None:
    """`--last`: the end of what is told without it, at least so many messages if there are, and the others are counted."""
    session = session_of(messages)
    try:
        whole, part = selected(session), selected(session, last=last)
    except InvalidParams:
        return
    assert list(map(plain, part.turns)) == list(map(plain, whole.turns))[-len(part.turns) :]
    kept, everything = (sum(turn.messages for turn in one.turns) for one in (part, whole))
    assert min(last, everything) <= kept
    assert part.lost["messages before the last ones"] == everything - kept


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in ("cline", "llm", "aider")])
def test_pictures_that_models_refuse(name: str) -> None:
    """Of another kind than all APIs take, or none at all: a text stands for each, and each is counted. One with a good
    picture's bytes and no kind is a PNG."""
    refused = [
        {"type": "base64", "media_type": "image/svg+xml", "data": "aGk="},
        {"type": "base64", "media_type": "image/png", "data": "no base64"},
        {"type": "base64", "media_type": "image/png", "data": ""},
    ]
    kindless = {"type": "base64", "data": "aGk="}
    content = [{"type": "image", "source": one} for one in (*refused, kindless)]
    message = Message(id="m", seq=1, role="user", content=content, timestamp="2026-01-01T00:00:00.000Z")
    session = session_of([message])
    with tempfile.TemporaryDirectory() as folder:
        place = in_home(name, Path(folder))
        made = make(place, session, "a-session", selected(session), folder)
        assert made.written is not None
        (event,) = [one.message for one in place.read(made.written) if isinstance(one, MessageRecord)]
    assert made.lost == {"pictures that models refuse": 3}
    written = json.dumps(event)
    assert written.count("[a picture that was left out]") == 3
    assert written.count("aGk=") == 1
