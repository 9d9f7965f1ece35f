"""Which parts of a message are searched."""

from __future__ import annotations

import pytest

from sessiond.index.text import searchable
from tests.index.feeding import message

CALL = {"id": "c", "name": "run_shell", "arguments": {"cmd": "ls\nmake", "deep": [{"n": 7}, True, None]}}


@pytest.mark.parametrize(
    ("content", "role", "rest", "expected"),
    [
        ("hello", "user", {}, [("text", "hello")]),
        ("", "user", {}, []),
        ("out", "tool", {}, [("tool", "out")]),
        ([{"type": "text", "text": "a"}, "b", 7, {"type": "image"}], "user", {}, [("text", "a"), ("text", "b")]),
        (
            [{"type": "thinking", "thinking": "hm"}, {"type": "reasoning", "text": "so"}],
            "assistant",
            {},
            [("thought", "hm"), ("thought", "so")],
        ),
        ("x", "assistant", {"thinking": "hm"}, [("text", "x"), ("thought", "hm")]),
        ("", "assistant", {"toolCalls": [CALL]}, [("tool", "run_shell\ncmd\nls\nmake\ndeep\nn\n7")]),
        (
            "",
            "assistant",
            {"toolCalls": [CALL | {"arguments": '{"cmd": "a\\nb"}'}]},
            [("tool", "run_shell\ncmd\na\nb")],
        ),
        ("", "assistant", {"toolCalls": [CALL | {"arguments": "{broken"}]}, [("tool", "run_shell\n{broken")]),
        ([{"type": "tool_use", "name": "Read", "input": {"p": "q"}}], "assistant", {}, [("tool", "Read\np\nq")]),
        (
            [{"type": "tool_result", "content": [{"type": "text", "text": "r"}, "s"]}],
            "user",
            {},
            [("tool", "r"), ("tool", "s")],
        ),
        ([{"type": "tool_result", "content": "r"}], "user", {}, [("tool", "r")]),
        ([{"type": "tool_result", "output": {"rows": [1, "a"]}}], "user", {}, [("tool", "rows\n1\na")]),
        ([{"type": "tool_result", "content": 5}], "user", {}, []),
        ([{"type": "tool_result", "content": [{"type": "image"}, 5, "s"]}], "user", {}, [("tool", "s")]),
        ("", "assistant", {"toolCalls": [CALL | {"arguments": "ls -l"}, {}]}, [("tool", "run_shell\nls -l")]),
        ([{"type": "tool_use"}, {"type": "text", "text": 5}, {"text": "t"}], "user", {}, [("text", "t")]),
        ([{"type": ["a"], "text": "t"}, {"type": {"b": 1}, "text": "u"}], "user", {}, [("text", "t"), ("text", "u")]),
        ("", "assistant", {"toolCalls": [CALL | {"arguments": [10**5000, "s"]}]}, [("tool", "run_shell\n\ns")]),
    ],
)
def test_searchable(content: object, role: str, rest: dict[str, object], expected: object) -> None:
    """Each kind of content gives the texts that the table says, arguments in JSON decoded."""
    assert searchable(message(1, content, role, **rest)) == expected
