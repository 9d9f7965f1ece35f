"""Content blocks of any vendor as the parts of a message."""

from __future__ import annotations

import json
from typing import Any

from sessiond.importers.blocks import call_of, parts_of, text_of, tool_call


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": content, **more}


def test_thinking_that_nobody_can_read_is_kept_beside_the_message() -> None:
    """A redacted thought is not text, but is kept with the others, in order."""
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    parts = parts_of([{"type": "thinking", "thinking": "hm"}, hidden, {"type": "text", "text": "so"}])
    assert (parts.thinking, parts.content) == ("hm", "so")
    assert parts.metadata == {"thinkingBlocks": [hidden]}


def test_one_result_says_what_it_says_in_the_metadata() -> None:
    """Of a result that is alone the content is the message's; whether it failed and the rest stand next to it."""
    parts = parts_of([result("no such file", is_error=True, cache="x")])
    assert (parts.content, parts.result_ids) == ("no such file", ["t"])
    assert parts.metadata == {"isError": True, "toolResult": {"cache": "x"}}
    assert parts_of([result("", is_error=False)]).metadata == {"isError": False}
    assert parts_of([result({"rows": 3})]).content == '{"rows": 3}'


def test_a_result_of_objects_without_a_type_is_text() -> None:
    """The text that such an object has is shown and the rest of it stays; without any it is shown as its JSON."""
    parts = parts_of([result([{"result": "42", "query": "6*7"}, {"rows": [1]}, "bare"])])
    assert parts.content == [
        {"type": "text", "text": "42", "query": "6*7"},
        {"type": "text", "text": '{"rows": [1]}'},
        {"type": "text", "text": "bare"},
    ]


def test_every_of_several_results_is_there_even_an_empty_one() -> None:
    """Each block says whose result it is; one that is not an object is shown as its JSON."""
    parts = parts_of([result(None), {**result([["odd"]]), "tool_use_id": "u"}, {**result("x"), "tool_use_id": 5}])
    assert parts.content == [
        {"type": "text", "text": "", "tool_use_id": "t"},
        {"type": "text", "text": '["odd"]', "tool_use_id": "u"},
        {"type": "text", "text": "x", "tool_use_id": ""},
    ]
    assert parts.metadata["toolCallIds"] == ["t", "u", ""]


def test_a_call_of_any_shape_obeys_the_protocol() -> None:
    """Id and name are texts, arguments an object or a text; nothing that was written is lost."""
    assert tool_call(None, None, None) == {"id": "", "name": "", "arguments": {}}
    assert tool_call(7, {"n": 1}, [1, 2]) == {"id": "7", "name": '{"n": 1}', "arguments": "[1, 2]"}
    assert call_of({"type": "tool_use", "id": "c", "name": "f"}) == {"id": "c", "name": "f", "arguments": {}}


def test_what_a_person_reads() -> None:
    """Text blocks of any vendor and bare strings, a line each; of no list and no string there is nothing to read."""
    assert (
        text_of(["a", {"type": "output_text", "text": "b"}, {"type": "image"}, {"type": "text", "text": 5}]) == "a\nb"
    )
    assert [text_of(other) for other in (None, 5, {"type": "text", "text": "x"})] == ["", "", ""]


def test_content_that_is_no_list_is_kept() -> None:
    """A string as it is, nothing as nothing, anything else as its JSON."""
    assert [parts_of(content).content for content in ("x", None)] == ["x", ""]
    assert json.loads(str(parts_of({"a": [1]}).content)) == {"a": [1]}
