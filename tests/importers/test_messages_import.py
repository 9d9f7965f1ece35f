"""Plain lists of messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from collected import lines, read, recognised

from sessiond.importers import lines as reader
from sessiond.importers import registry
from sessiond.importers.record import SkippedLine


def test_a_json_array_of_messages(tmp_path: Path) -> None:
    """Roles, texts, times and unknown keys are kept, in order."""
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps(
            [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "hi", "timestamp": "2026-01-02T03:04:05+01:00", "mood": "good"},
                {"role": "assistant", "content": [{"type": "text", "text": "ho"}], "created_at": 1767322000},
            ]
        )
    )
    assert recognised(path) == "messages"
    stream = read(path)
    assert stream.told() == [("system", "be kind"), ("user", "hi"), ("assistant", "ho")]
    assert stream.only[1]["timestamp"] == "2026-01-02T02:04:05.000Z"
    assert stream.only[1]["metadata"] == {"mood": "good"}
    assert stream.only[2]["timestamp"] == "2026-01-02T02:46:40.000Z"
    assert stream.only_info["name"] == "chat"


def test_json_lines_and_openais_calls(tmp_path: Path) -> None:
    """Nested function calls become toolCalls, a tool's answer names its call, reasoning is thinking."""
    path = lines(
        tmp_path / "chat.jsonl",
        {"role": "user", "content": "2+2?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "add",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "sum", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "4"},
        {"note": "no message"},
        {"role": "assistant", "content": "4"},
    )
    stream = read(path)
    assert stream.told() == [("user", "2+2?"), ("assistant", ""), ("tool", "4"), ("assistant", "4")]
    assert stream.only[1]["toolCalls"] == [{"id": "c", "name": "sum", "arguments": "{}"}]
    assert stream.only[1]["thinking"] == "add"
    assert stream.only[2]["toolCallId"] == "c"
    assert [s.line for s in stream.skipped] == [4]


def test_an_object_with_messages_and_anthropics_results(tmp_path: Path) -> None:
    """Other fields of the object are kept; a user's tool results have the role tool."""
    path = tmp_path / "request.json"
    path.write_text(
        json.dumps(
            {
                "model": "m1",
                "temperature": 0,
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
                ],
            }
        )
    )
    stream = read(path)
    assert stream.told() == [("assistant", ""), ("tool", "r")]
    assert stream.only_info["model"] == "m1"
    assert stream.only_info["metadata"]["document"]["temperature"] == 0


def test_the_same_words_twice_are_two_messages_with_lasting_ids(tmp_path: Path) -> None:
    """Ids do not depend on the file's time or on what is appended."""
    path = lines(tmp_path / "a.jsonl", {"role": "user", "content": "go on"}, {"role": "user", "content": "go on"})
    first = [m["id"] for m in read(path).only]
    assert len(set(first)) == 2
    lines(
        path,
        {"role": "user", "content": "go on"},
        {"role": "user", "content": "go on"},
        {"role": "user", "content": "go on"},
    )
    assert [m["id"] for m in read(path).only][:2] == first


def test_other_json_is_not_taken_for_messages(tmp_path: Path) -> None:
    """A configuration file or a log is not recognised."""
    (tmp_path / "package.json").write_text('{"name": "x", "role": 1}')
    lines(tmp_path / "log.jsonl", {"level": "info", "message": "x"})
    (tmp_path / "empty.json").write_text("")
    assert [recognised(tmp_path / name) for name in ("package.json", "log.jsonl", "empty.json")] == [None] * 3


def test_a_list_that_is_cut_off_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported, others are reported, and so is the cut."""
    path = tmp_path / "chat.json"
    path.write_text('{"messages": [{"role": "user", "content": "hi"}, {"role": 1}, {"role": "assistant", "content": "h')
    stream = read(path)
    assert stream.told() == [("user", "hi")]
    assert [one.reason.split(":")[0] for one in stream.skipped] == ["not a message", "cut off in the middle"]


def test_what_sessiond_knows_of_a_message_is_taken(tmp_path: Path) -> None:
    """Thread, tick and snapshot of a message go where they belong if they have their type; a bare call and the model too."""
    path = lines(
        tmp_path / "chat.jsonl",
        {"role": "user", "content": "hi", "thread": "t", "tick": 3, "contextSnapshot": {"a": 1}},
        {"role": "assistant", "toolCalls": [{"id": "c", "name": "f", "input": {"x": 1}, "extra": 2}], "model": "m1"},
        {"role": "user", "content": "ho", "thread": 5, "tick": "soon", "metadata": "loose"},
    )
    stream = read(path)
    first, second, third = stream.only
    assert (first["thread"], first["tick"], first["contextSnapshot"]) == ("t", 3, {"a": 1})
    assert second["toolCalls"] == [{"id": "c", "name": "f", "arguments": {"x": 1}, "extra": 2}]
    assert {"thread", "tick"}.isdisjoint(third)
    assert third["metadata"] == {"metadata": "loose"}
    assert stream.only_info["model"] == "m1"


DEPTH = 200_000
FIRST_LINES = {
    "no JSON": (b"not json", "not valid JSON"),
    "another object": (b'{"foo":1}', "not a message"),
    "no object": (b"[1]", "not a JSON object"),
    "an array of objects": (b'[{"a":1}]', "not a JSON object"),
    "NULs": (b"\0" * 100, "only NUL bytes"),
    "too deep": (b'{"a":' * DEPTH + b"1" + b"}" * DEPTH, "nested too deeply"),
    "too deep an array": (b"[" * DEPTH + b"]" * DEPTH, "nested too deeply"),
    "too long": (b'{"a":"' + b"x" * 3_000_000 + b'"}', "longer than"),
    "too long a message": (b'{"role":"user","content":"' + b"x" * 3_000_000 + b'"}', "longer than"),
}


@pytest.mark.parametrize("kind", FIRST_LINES)
def test_a_bad_first_line_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The file is recognised by the lines after it; the bad one is reported with its number and reason."""
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 2_500_000)
    first, reason = FIRST_LINES[kind]
    path = lines(
        tmp_path / "chat.jsonl", first, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}
    )
    assert recognised(path) == "messages"
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", "ho")]
    assert [(one.line, one.reason[: len(reason)]) for one in stream.skipped] == [(1, reason)]


def test_an_array_over_several_lines_is_one_document(tmp_path: Path) -> None:
    """Also under a name for JSON Lines, though its last element stands on a line of its own."""
    path = lines(tmp_path / "chat.jsonl", b"[", b'{"role": "user", "content": "hi"}', b"]")
    stream = read(path)
    assert (stream.told(), stream.skipped) == ([("user", "hi")], [])


def test_few_messages_among_other_records_are_no_list_of_messages(tmp_path: Path) -> None:
    """A program's log with a message in it, and a file without any, are refused."""
    log = [{"level": "info", "n": n} for n in range(5)]
    assert recognised(lines(tmp_path / "log.jsonl", *log, {"role": "user", "content": "hi"})) is None
    path = lines(tmp_path / "noise.jsonl", b"not json", {"foo": 1}, b"x" * 200_000)
    assert recognised(path) is None
    assert registry.identify(str(path), None, named=True) == SkippedLine(
        str(path), None, "not a file of any known tool"
    )
