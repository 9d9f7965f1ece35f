"""Message lists for models' APIs: valid for random sessions, with every word of the conversation once and in order."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from exported import message, session, text
from hypothesis import given
from hypothesis import strategies as st

from tests.exporters.api_rules import anthropic_faults, openai_faults
from tests.importers.collected import read

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
IDS = st.sampled_from(["c1", "c2", "", "a b/ü", "x" * 90])
ARGUMENTS = st.sampled_from([{}, {"path": "a"}, '{"path": "a"}', "not json", "[1]", ""])
CALLS = st.lists(st.fixed_dictionaries({"id": IDS, "name": st.sampled_from(["ls", "", "mcp.tool:x", "n" * 99]), "arguments": ARGUMENTS}), max_size=3)  # fmt: skip
MARKS = st.sampled_from([{}, {}, {}, {"injected": True}, {"branch": True}, {"compaction": True}, {"isError": True}])


@st.composite
def conversations(draw: st.DrawFn) -> Any:
    """Messages with numbered texts, in any order of roles; calls with or without results, results with or without calls."""
    made = []
    for number in range(draw(st.integers(0, 12))):
        role = draw(st.sampled_from(["user", "user", "assistant", "assistant", "tool", "tool", "system", "developer"]))
        said = draw(st.sampled_from([f"word{number}", "", " \n", f"word{number}"]))
        content = draw(st.sampled_from([said, [{"type": "text", "text": said}, PNG], [{"type": "odd", "value": said}]]))
        rest: dict[str, Any] = {"metadata": draw(MARKS)}
        if role == "assistant":
            rest["toolCalls"] = draw(CALLS)
        if role == "tool":
            rest["toolCallId"] = draw(IDS)
        made.append(message(number + 1, role, content, **rest))
    return made


def words(value: Any) -> list[str]:
    """The numbered words of a JSON value, in its order."""
    return re.findall(r"word\d+", json.dumps(value))


def said(messages: list[Any]) -> list[str]:
    marks = ("injected", "branch", "compaction")
    return [word for one in messages if not any(one.metadata.get(key) for key in marks) for word in words(one.content)]


@given(conversations())
def test_any_session_is_valid_and_whole(messages: list[Any]) -> None:
    made = session(*messages)
    openai, anthropic = json.loads(text(made, "openai")), json.loads(text(made, "anthropic"))
    assert openai_faults(openai) == []
    assert anthropic_faults(anthropic) == []
    assert sorted(words(openai)) == sorted(said(messages))
    assert sorted(words(anthropic)) == sorted(said(messages))
    spoken = [one for one in messages if one.role not in ("tool", "system", "developer")]
    order = [word for word in words(openai["messages"]) if word in said(spoken)]
    assert order == said(spoken)


TALK = [
    message(1, "system", "Be brief."),
    message(2, "user", "What is here?"),
    message(3, "assistant", "Let me look.", thinking="hm", toolCalls=[{"id": "c1", "name": "ls", "arguments": {"path": "."}}]),
    message(4, "tool", "apple.txt", toolCallId="c1"),
    message(5, "assistant", "An apple."),
]  # fmt: skip
USE = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}


def test_what_the_apis_take() -> None:
    made = session(*TALK)
    function = {"name": "ls", "arguments": '{"path":"."}'}
    assert json.loads(text(made, "openai"))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "apple.txt"},
        {"role": "assistant", "content": "An apple."},
    ]  # fmt: skip
    body = json.loads(text(made, "anthropic"))
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "apple.txt"}]}
    assert body["system"] == "Be brief."
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "What is here?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, USE]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "An apple."}]},
    ]


def test_a_tool_s_own_notices_are_not_sent() -> None:
    """A block in which a tool speaks for itself goes to no model, also in sessions that were imported with it among the words."""
    notices = [{"type": kind, "msg": "noticed"} for kind in ("conversationCompacted", "systemNotification", "retry")]
    messages = [
        message(1, "user", "hi"),
        message(2, "assistant", [notices[0], {"type": "text", "text": "ho"}, notices[1]]),
        message(3, "user", "more"),
        message(4, "assistant", [notices[2]]),
    ]
    for form in ("openai", "anthropic"):
        found = text(session(*messages), form)
        assert "ho" in found
        assert not [word for word in ("noticed", "Notification", "retry", "Compacted") if word in found]


def test_a_call_that_was_cut_off_has_a_result() -> None:
    """Models refuse a call without one."""
    made = session(*TALK[:3], message(6, "user", "Go on."))
    assert json.loads(text(made, "openai"))["messages"][-2]["content"] == "(no result: the call was cut off)"
    last = json.loads(text(made, "anthropic"))["messages"][-1]["content"]
    assert last[0]["is_error"] is True
    assert last[1] == {"type": "text", "text": "Go on."}


def test_a_result_whose_call_is_unknown_has_one_that_stands_for_it() -> None:
    """Nobody said it; a second result of a call is such a one."""
    again = message(6, "tool", "a plum, found later", toolCallId="c1")
    made = session(*TALK, again, message(7, "user", "So?"))
    *_, call, result, last = json.loads(text(made, "openai"))["messages"]
    assert call["role"] == "assistant"
    assert "content" not in call
    [called] = call["tool_calls"]
    assert called["id"] == result["tool_call_id"] != "c1"
    assert (result["role"], result["content"]) == ("tool", "a plum, found later")
    assert last == {"role": "user", "content": "So?"}
    *_, use, answer = json.loads(text(made, "anthropic"))["messages"]
    assert [block["type"] for block in use["content"]] == ["text", "tool_use"]
    assert [block["type"] for block in answer["content"]] == ["tool_result", "text"]


def test_what_aider_shows_to_people_is_not_sent() -> None:
    made = session(
        message(1, "tool", "Tokens: 9.4k sent, 867 received."),
        message(2, "user", "hello"),
        message(3, "assistant", "hi"),
    )
    made.metadata = {"source": {"tool": "aider"}}
    for format_ in ("openai", "anthropic"):
        assert "Tokens" not in text(made, format_)
        assert "hello" in text(made, format_)


def test_a_command_that_the_person_ran_is_not_what_they_said() -> None:
    ran = message(2, "bashExecution", "$ ls\napple.txt", metadata={"command": "ls"})
    made = session(message(1, "developer", "Be brief."), ran, message(3, "user", "So?"))
    first, call, result, last = json.loads(text(made, "openai"))["messages"]
    assert first == {"role": "system", "content": "Be brief."}
    assert call["tool_calls"][0]["function"] == {"name": "bashExecution", "arguments": '{"command":"ls"}'}
    assert (result["role"], result["content"]) == ("tool", "$ ls\napple.txt")
    assert last["content"] == "So?"


def test_a_summary_that_the_tool_asked_for_is_not_sent() -> None:
    """opencode's, as an answer of the assistant's. Other messages that are called a summary are sent."""
    asks = message(3, "user", [{"type": "compaction", "auto": True}])
    summary = message(4, "assistant", "They spoke about fruit.", metadata={"summary": True})
    other = message(5, "assistant", "In short: fruit.", metadata={"summary": True})
    for told, sent in ((asks, False), (message(3, "user", "Sum up."), True)):
        made = session(
            message(1, "user", "one"), message(2, "assistant", "two"), told, summary, message(6, "user", "six")
        )
        body = text(made, "openai")
        assert ("They spoke" in body) is sent
    assert "In short" in text(session(message(1, "user", "one"), other), "anthropic")


def test_images_go_both_ways() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    for given_block in (PNG, url):
        made = session(message(1, "user", [given_block]))
        assert json.loads(text(made, "openai"))["messages"] == [{"role": "user", "content": [url]}]
        assert json.loads(text(made, "anthropic"))["messages"] == [{"role": "user", "content": [PNG]}]


def test_a_list_is_read_back(tmp_path: Path) -> None:
    """By the importer of such lists."""
    path = tmp_path / "list.json"
    path.write_text(text(session(*TALK), "openai"))
    assert read(path, "messages").told() == [
        ("system", "Be brief."),
        ("user", "What is here?"),
        ("assistant", "Let me look."),
        ("tool", "apple.txt"),
        ("assistant", "An apple."),
    ]
