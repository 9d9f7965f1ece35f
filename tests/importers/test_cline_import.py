"""Cline."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from collected import corpus, read, recognised


def test_the_real_file_gives_every_message_once_in_order() -> None:
    """Each message keeps its id, role, time, text, calls, results and other blocks."""
    path = corpus("cline/session.messages.json")
    document = json.loads(path.read_bytes())
    stream = read(path)
    assert not stream.skipped
    assert list(stream.starts) == [document["sessionId"]]
    assert [m["id"] for m in stream.only] == [m["id"] for m in document["messages"]]
    for got, message in zip(stream.only, document["messages"], strict=True):
        blocks = message["content"]
        results = [b for b in blocks if b["type"] == "tool_result"]
        assert got["role"] == ("tool" if results else message["role"])
        at = datetime.fromtimestamp(message["ts"] / 1000, UTC)
        assert got["timestamp"] == at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{message['ts'] % 1000:03d}Z"
        answers = [
            r["content"] if isinstance(r["content"], str) else "\n".join(part["result"] for part in r["content"])
            for r in results
        ]
        texts = [b["text"] for b in blocks if b["type"] == "text"] + answers
        content = (
            got["content"]
            if isinstance(got["content"], str)
            else "\n".join(b["text"] for b in got["content"] if b["type"] == "text")
        )
        assert content == "\n".join(texts)
        others = [b for b in blocks if b["type"] not in ("text", "tool_use", "tool_result")]
        assert [b for b in got["content"] if isinstance(b, dict) and b["type"] != "text"] == others
        calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        assert [(c["id"], c["name"], c["arguments"]) for c in got.get("toolCalls", [])] == calls
        assert got.get("toolCallId") == (results[0]["tool_use_id"] if results else None)
        assert got.get("metadata", {}).get("metrics") == message.get("metrics")
    assert stream.only_info["metadata"]["agent"] == document["agent"]
    assert stream.only_info["updatedAt"] == document["updated_at"]


def test_the_older_layout_is_read(tmp_path: Path) -> None:
    """A task's folder is its id and, where messages have no times, its time; environment details are injected."""
    folder = tmp_path / "tasks" / "1700000000000"
    folder.mkdir(parents=True)
    path = folder / "api_conversation_history.json"
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<task>\ndo it\n</task>"},
                {"type": "text", "text": "<environment_details>x</environment_details>"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}], "ts": 1700000005000},
        {"role": "user", "content": [{"type": "text", "text": "<environment_details>y</environment_details>"}]},
    ]
    path.write_text(json.dumps(messages))
    assert recognised(path) == "cline"
    stream = read(path)
    assert list(stream.starts) == ["1700000000000"]
    assert [m["timestamp"] for m in stream.only] == [
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:13:25.000Z",
        "2023-11-14T22:13:25.000Z",
    ]
    assert [bool(m.get("metadata", {}).get("injected")) for m in stream.only] == [False, False, True]


def test_only_clines_own_marks_make_a_file_clines(tmp_path: Path) -> None:
    """Its file name, or its times; an id and messages alone are anyone's, and keep their own times."""
    said = {"role": "user", "content": "hi"}
    for name, time, tool in (
        ("x.messages.json", {}, "cline"),
        ("x.json", {"ts": 1700000000000}, "cline"),
        ("x.json", {"timestamp": "2026-01-01T00:00:00Z"}, "messages"),
        ("x.json", {"ts": 1700000000}, "messages"),
    ):
        path = tmp_path / name
        path.write_text(json.dumps({"sessionId": "abc", "messages": [{**said, **time}]}))
        assert recognised(path) == tool, (name, time)
    path.write_text(json.dumps({"sessionId": "abc", "messages": [{**said, "timestamp": "2026-01-01T00:00:00Z"}]}))
    assert [m["timestamp"] for m in read(path).only] == ["2026-01-01T00:00:00.000Z"]


def test_a_file_that_is_cut_off_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported, the cut is reported with the line of the message that it cuts."""
    path = tmp_path / "x.messages.json"
    text = json.dumps(
        {
            "version": 1,
            "sessionId": "s",
            "messages": [{"id": f"m{n}", "role": "user", "content": "hi", "ts": 1700000000000} for n in range(5)],
        },
        indent=1,
    )
    path.write_text(text[: text.index('"m3"')])
    stream = read(path)
    assert [m["id"] for m in stream.only] == ["m0", "m1", "m2"]
    assert "cut off" in stream.skipped[-1].reason
    assert stream.skipped[-1].line == text[: text.index('"m3"')].count("\n"), (
        "the line on which the broken element begins"
    )


def test_what_is_no_message_is_reported_and_the_model_kept(tmp_path: Path) -> None:
    """An element of another shape costs itself only; the model that answered last is the session's."""
    path = tmp_path / "x.messages.json"
    messages = [
        "no message",
        {"role": 5},
        {"id": "a", "role": "assistant", "content": "ho", "ts": 1700000000000, "modelInfo": {"id": "m1"}},
    ]
    path.write_text(json.dumps({"version": 1, "sessionId": "s", "messages": messages}))
    stream = read(path)
    assert stream.told() == [("assistant", "ho")]
    assert ["not a message" in one.reason for one in stream.skipped] == [True, True]
    assert stream.only_info["model"] == "m1"
