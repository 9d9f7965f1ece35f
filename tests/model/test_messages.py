"""What a client may append, and when it is a retry of a stored message."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.errors import InvalidParams
from sessiond.model.message import Message, check_message, repeats
from sessiond.model.values import check_json

T = "2026-01-11T14:30:22.000Z"
CALL = {"id": "c", "name": "f", "arguments": {}}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"role": ""}, "role"),
        ({"role": 5}, "role"),
        ({"content": None}, "content"),
        ({"content": {"text": "x"}}, "content"),
        ({"id": ""}, "id"),
        ({"id": "x" * 257}, "id"),
        ({"id": None}, "id"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": 5}, "timestamp"),
        ({"timestamp": "9999-12-31T23:59:59-23:59"}, "timestamp"),
        ({"status": "gone"}, "status"),
        ({"toolCallId": 5}, "toolCallId"),
        ({"thinking": ["hm"]}, "thinking"),
        ({"thread": False}, "thread"),
        ({"tick": "1"}, "tick"),
        ({"tick": True}, "tick"),
        ({"metadata": []}, "metadata"),
        ({"toolCalls": {}}, "toolCalls"),
        ({"toolCalls": [CALL, 5]}, "toolCalls[1]"),
        ({"toolCalls": [CALL | {"id": 5}]}, "toolCalls[0].id"),
        ({"toolCalls": [CALL | {"name": None}]}, "toolCalls[0].name"),
        ({"toolCalls": [CALL | {"arguments": [1]}]}, "toolCalls[0].arguments"),
    ],
)
def test_what_is_no_message_is_refused_by_its_field(wrong: dict[str, Any], field: str) -> None:
    """The field is named as it is in the request."""
    right = {"role": "user", "content": "hi"}
    check_message(right, "messages[3]")
    with pytest.raises(InvalidParams) as refused:
        check_message(right | wrong, "messages[3]")
    assert refused.value.data["field"] == f"messages[3].{field}"


@pytest.mark.parametrize("wrong", [None, "hi", [], 5])
def test_a_message_is_an_object(wrong: Any) -> None:
    with pytest.raises(InvalidParams, match=r"messages\[0\]: expected an object"):
        check_message(wrong, "messages[0]")


def nested(depth: int) -> Any:
    value: Any = "core"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("\ud800", "a lone surrogate"),
        ({"\udfff": 1}, "a lone surrogate"),
        ([{"a": [2**64]}], "does not fit into 64 bits"),
        (-(2**63) - 1, "does not fit into 64 bits"),
        (float("nan"), "is not a JSON number"),
        ([float("-inf")], "is not a JSON number"),
        (nested(101), "nested deeper than 100"),
        ({"a": b"bytes"}, "bytes is not JSON"),
        ([{1, 2}], "set is not JSON"),
    ],
)
def test_what_could_not_be_kept_is_refused(value: Any, words: str) -> None:
    """What JSON cannot represent, or no reader would accept again, at any depth."""
    with pytest.raises(InvalidParams, match=words):
        check_json(value, "state")


def test_the_extremes_that_can_be_kept() -> None:
    check_json([2**64 - 1, -(2**63), 1e308, True, None, "日本 \U0001f600", {"ä": []}], "state")
    check_json(nested(100), "state")


KEPT = Message(id="m", seq=1, role="user", content="hi", timestamp=T, status="done", rest={"metadata": {"k": 1}})


@pytest.mark.parametrize(
    ("sent", "same"),
    [
        ({"role": "user", "content": "hi"}, True),
        ({"role": "user", "content": "hi", "id": "m", "seq": 9}, True),
        ({"role": "assistant", "content": "hi"}, False),
        ({"role": "user", "content": "ho"}, False),
        ({"content": "hi", "timestamp": None}, True),
        ({"content": "hi", "timestamp": "2026-01-11T15:30:22+01:00"}, True),
        ({"content": "hi", "timestamp": "2026-01-11T15:30:23+01:00"}, False),
        ({"content": "hi", "status": None}, True),
        ({"content": "hi", "status": "done"}, True),
        ({"content": "hi", "status": "error"}, False),
        ({"content": "hi", "metadata": {"k": 1}}, True),
        ({"content": "hi", "metadata": {"k": 2}}, False),
        ({"content": "hi", "thread": "t"}, False),
    ],
)
def test_a_retry_is_told_from_another_message(sent: dict[str, Any], same: bool) -> None:
    """Only what was sent is compared: by its meaning, as a time in another zone."""
    assert repeats(sent, KEPT) is same


def test_the_retry_of_a_streamed_append_is_compared_with_what_was_appended() -> None:
    """Its text and its status have changed since, and that is not a difference."""
    sent = {"role": "user", "content": "h", "status": "streaming"}
    assert repeats(sent, KEPT, "h")
    assert not repeats(sent, KEPT, "H")
    assert not repeats(sent, KEPT)
