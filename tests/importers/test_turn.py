"""One record of a tool as the messages that it stands for, and the other parts that the importers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import MessageRecord, open_source
from sessiond.importers.source_file import beside, listed, mapped, path_of, rest_of, word
from sessiond.importers.tool import Tool, in_config, in_editors, in_state
from sessiond.importers.turn import Turn


def messages(turn: Turn, **more: Any) -> list[dict[str, Any]]:
    draft = SessionDraft("tool", "x", "s")
    draft.start()
    return [one.message for one in turn.events(draft, **more) if isinstance(one, MessageRecord)]


def test_what_follows_a_result_is_another_message() -> None:
    """Texts and calls until a result are one message; the id is the first one's, and the others' are made from it."""
    turn = Turn("assistant", {"model": "m"})
    turn.think("hm")
    turn.say("I look.")
    turn.call("c1", "ls", {"d": "."}, title=None, kind="shell")
    turn.call("c2", "cat", None)
    turn.result("c1", "apples")
    turn.result("c2", {"code": 1}, {"took": 5}, error=True)
    turn.say("Done.")
    found = messages(turn, id="m1", time="2026-01-01T10:00:00Z", status="interrupted")
    assert [(one["id"], one["role"], one["content"]) for one in found] == [
        ("m1", "assistant", "I look."),
        ("m1-c1", "tool", "apples"),
        ("m1-c2", "tool", '{"code": 1}'),
        ("m1-3", "assistant", "Done."),
    ]
    assert found[0]["toolCalls"] == [
        {"id": "c1", "name": "ls", "arguments": {"d": "."}, "kind": "shell"},
        {"id": "c2", "name": "cat", "arguments": {}},
    ]
    assert found[2]["metadata"] == {"took": 5, "isError": True}
    assert [("metadata" in one, one.get("status")) for one in found] == [
        (True, "interrupted"),
        (False, None),
        (True, None),
        (False, None),
    ]


@pytest.mark.parametrize("first", ["c1", "c2"])
def test_one_step_is_one_message_and_its_results(first: str) -> None:
    """Whichever of the calls has its result first: the id and the calls do not depend on it."""
    turn = Turn("assistant", one_step=True)
    turn.result("c0", "begun before")
    for call_id in ("c1", "c2"):
        turn.call(call_id, "ls", {})
        if call_id == first:
            turn.result(call_id, "apples")
    turn.say("I look.")
    found = messages(turn, id="m1")
    assert [(one["id"], one["content"]) for one in found] == [
        ("m1", "I look."), ("m1-c0", "begun before"), (f"m1-{first}", "apples"),
    ]  # fmt: skip
    assert [one["id"] for one in found[0]["toolCalls"]] == ["c1", "c2"]


def test_a_record_of_results_alone_keeps_its_id() -> None:
    """The first result has the record's id and metadata."""
    turn = Turn("user", {"source": "x"})
    turn.result("c1", "a")
    turn.result(None, "b")
    found = messages(turn, id="m1")
    assert [(one["id"], one["toolCallId"]) for one in found] == [("m1", "c1"), ("m1-1", "")]
    assert found[0]["metadata"] == {"source": "x"}


def test_an_unusual_order_is_written_down() -> None:
    """Thinking, texts and calls are in fields of their own; if they came in another order, it is kept."""
    turn = Turn("assistant")
    turn.call("c1", "ls", {})
    turn.say("After the call.")
    (found,) = messages(turn)
    assert found["metadata"] == {"blockOrder": ["call", "content"]}


def test_an_empty_record_is_a_message() -> None:
    """Nothing was said, but the record is there; empty texts and thoughts are not parts of it."""
    turn = Turn("assistant")
    turn.say("")
    turn.say(None)
    turn.think("")
    assert turn.is_empty
    assert [one["content"] for one in messages(turn)] == [""]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text", [("assistant", "text")]),
        (None, [("assistant", "")]),
        (
            [{"type": "input_text", "text": "a"}, "b", None],
            [("assistant", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
        ),
        ([{"type": "image", "url": "u"}], [("assistant", [{"type": "image", "url": "u"}])]),
        ([5], [("assistant", [5])]),
        ([{"type": "tool_result", "tool_use_id": "c", "content": "r"}], [("tool", "r")]),
        ([{"type": "tool-result", "toolCallId": "c", "output": {"type": "json", "value": [1]}}], [("tool", [1])]),
        ([{"type": "tool-result", "toolCallId": "c", "result": "r"}], [("tool", "r")]),
    ],
)
def test_blocks_of_any_vendor(content: Any, expected: Any) -> None:
    """Anthropic's, OpenAI's and the AI SDK's blocks are read; any other block is kept as it is."""
    turn = Turn("assistant")
    turn.take(content)
    assert [(one["role"], one["content"]) for one in messages(turn)] == expected


def test_thinking_keeps_its_signatures() -> None:
    """The metadata has them, and thinking that cannot be read."""
    turn = Turn("assistant")
    turn.take([{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "redacted_thinking", "data": "d"}])
    turn.take([{"type": "reasoning", "text": "b"}, {"type": "thinking", "thinking": ""}])
    (found,) = messages(turn)
    assert found["thinking"] == "a\n\nb"
    assert found["metadata"] == {"thinkingBlocks": [{"signature": "s"}, {"type": "redacted_thinking", "data": "d"}]}


def test_fields_that_say_something() -> None:
    """Zero and false say something; empty texts and lists do not."""
    record = {"a": 0, "b": False, "c": "", "d": [], "e": {}, "f": None, "g": 1}
    assert rest_of(record, "g") == {"a": 0, "b": False}
    assert (listed(5), mapped([]), word(5)) == ([], {}, "")


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///home/me/my%20work", "/home/me/my work"), ("/work", "/work"), ("", None), (5, None)],
)
def test_a_folder_from_a_uri(uri: Any, path: str | None) -> None:
    """An editor writes URIs, a command paths."""
    assert path_of(uri) == path


def test_a_file_next_to_another(tmp_path: Path) -> None:
    """The file's object is read as far as it goes; a missing file gives an empty object."""
    (tmp_path / "b.json").write_text('{"a": 1, "b"')
    assert beside(str(tmp_path / "a.json"), "b.json", open_source) == {"a": 1}
    assert beside(str(tmp_path / "a.json"), "c.json", open_source) == {}


def test_places_follow_the_environment() -> None:
    """Variables of the environment move the folders; a tool has no places unless it names them."""
    env = {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s"}
    assert in_config("/h", env, "x") == ["/c/x", "/d/x", "/h/Library/Application Support/x"]
    assert in_config("/h", {}, "x")[:2] == ["/h/.config/x", "/h/.local/share/x"]
    assert in_state("/h", env, "x") == ["/d/x", "/s/x"]
    assert in_state("/h", {}, "x") == ["/h/.local/share/x", "/h/.local/state/x"]
    assert "/c/VSCodium/User/y" in in_editors("/h", env, "y")
    assert Tool().places("/h", env) == []


def test_fields_of_a_call_do_not_take_the_place_of_its_own() -> None:
    """A record may have any, and of any type: what the call says of itself stays."""
    turn = Turn("assistant")
    turn.take([
        {"type": "tool-call", "toolCallId": "c1", "toolName": "ls", "args": {}, "id": ["x"], "name": 5, "call_id": 1, "self": 2},
    ])  # fmt: skip
    [call] = messages(turn, id="m1", time="2026-01-01T10:00:00Z")[0]["toolCalls"]
    assert call == {"id": "c1", "name": "ls", "arguments": {}, "call_id": 1, "self": 2}


def test_a_record_that_comes_again_is_one_message() -> None:
    """Also if it has no time, whatever was said in between: its own time is a guess."""
    for time in (None, "2026-01-11T14:30:00.000Z"):
        draft = SessionDraft("tool", "x", "s")
        draft.start()
        said = [
            *draft.message("user", "first", id="a", time="2026-01-11T14:29:00.000Z"),
            *draft.message("user", "again", id="b", time=time),
            *draft.message("user", "later", id="c", time="2026-01-11T14:31:00.000Z"),
            *draft.message("user", "again", id="b", time=time),
        ]
        assert [one.message["id"] for one in said if isinstance(one, MessageRecord)] == ["a", "b", "c"]
