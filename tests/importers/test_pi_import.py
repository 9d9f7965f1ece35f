"""pi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import corpus, lines, read, recognised

T = "2026-02-01T10:00:00.000Z"
ROLES = {"toolResult": "tool"}
STATUS = {"aborted": "interrupted", "error": "error"}


def test_the_real_file_gives_every_record_once_in_order() -> None:
    """Each message record is one message with its role, time, text, calls and thinking; a compaction's summary is one
    more."""
    path = corpus("pi/before-compaction.jsonl")
    records = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    spoken = [r for r in records if r["type"] in ("message", "compaction")]
    stream = read(path)
    assert not stream.skipped
    assert len(stream.only) == len(spoken)
    for got, record in zip(stream.only, spoken, strict=True):
        assert got["timestamp"] == record["timestamp"]
        if record["type"] == "compaction":
            assert (got["role"], got["content"]) == ("system", record["summary"])
            continue
        message = record["message"]
        assert got["role"] == ROLES.get(message["role"], message["role"])
        blocks = message.get("content", [])
        texts = [b["text"] for b in blocks if b["type"] == "text"]
        content = got["content"] if isinstance(got["content"], str) else "\n".join(b["text"] for b in got["content"])
        if message["role"] == "bashExecution":
            assert message["command"] in content
            assert message["output"] in content
        else:
            assert content == "\n".join(texts)
        calls = [(b["id"], b["name"], b["arguments"]) for b in blocks if b["type"] == "toolCall"]
        assert [(c["id"], c["name"], c["arguments"]) for c in got.get("toolCalls", [])] == calls
        thoughts = [b["thinking"] for b in blocks if b["type"] == "thinking"]
        assert got.get("thinking") == ("\n\n".join(thoughts) if thoughts else None)
        assert got.get("toolCallId") == message.get("toolCallId")
        assert got.get("status") == STATUS.get(message.get("stopReason"))
        assert got["metadata"].get("usage") == message.get("usage")
        assert got["metadata"].get("errorMessage") == message.get("errorMessage")
    assert len({m["id"] for m in stream.only}) == len(spoken)


def test_the_real_session_knows_where_it_is_from() -> None:
    """Folder, model, time and the file that it was branched from."""
    info = read(corpus("pi/before-compaction.jsonl")).only_info
    assert info["cwd"] == "/Users/badlogic/workspaces/pi-mono"
    assert info["model"] == "claude-opus-4-5"
    assert info["createdAt"] == "2025-12-09T00:53:29.825Z"
    assert info["parent"] == {"sessionId": "pi-d97339c6-6c10-4827-846b-9ff1d9c3dc37", "seq": None}


def test_newer_records_keep_ids_names_and_the_tree(tmp_path: Path) -> None:
    """Ids are the records' own, parents remain in the metadata, an extension's message is injected, session_info names."""

    def entry(kind: str, n: int, **more: Any) -> dict[str, Any]:
        return {"type": kind, "id": f"id{n}", "parentId": f"id{n - 1}", "timestamp": T, **more}

    path = lines(
        tmp_path / "2026_x.jsonl",
        {"type": "session", "version": 3, "id": "u", "timestamp": T, "cwd": "/w"},
        entry("message", 1, message={"role": "user", "content": "hi", "timestamp": 1}),
        entry("custom_message", 2, customType="x", content="from an extension", display=True),
        entry("branch_summary", 3, summary="left that way", fromId="id1"),
        entry("label", 4, label="here"),
        entry("session_info", 5, name="Named"),
    )
    assert recognised(path) == "pi"
    stream = read(path)
    assert [(m["id"], m["role"], m["content"]) for m in stream.only] == [
        ("id1", "user", "hi"),
        ("id2", "user", "from an extension"),
        ("id3", "system", "left that way"),
    ]
    assert [m["metadata"]["parentId"] for m in stream.only] == ["id0", "id1", "id2"]
    assert stream.only[1]["metadata"]["injected"] is True
    assert stream.only_info["name"] == "Named"
    assert stream.only_info["metadata"]["records"][0]["label"] == "here"


def test_a_file_without_its_header_is_read(tmp_path: Path) -> None:
    """The file's name stands for the id where the header is damaged."""
    path = lines(
        tmp_path / "2026-01-01_11111111-2222-4333-8444-555555555555.jsonl",
        b'{"type":"sess',
        {"type": "message", "timestamp": T, "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}},
    )
    stream = read(path, "pi")
    assert list(stream.starts) == ["11111111-2222-4333-8444-555555555555"]
    assert stream.told() == [("user", "hi")]
    assert [s.line for s in stream.skipped] == [1]


def test_what_happened_between_the_messages(tmp_path: Path) -> None:
    """Changes of the model and its effort belong to the session, a user's command is shown with its output, a result names
    its call, and an odd message is kept.
    """

    def said(**message: Any) -> dict[str, Any]:
        return {"type": "message", "timestamp": T, "message": message}

    path = lines(
        tmp_path / "2026_y.jsonl",
        {"type": "session", "id": "u", "timestamp": T, "cwd": "/w", "branchedFrom": r"C:\pi\older.jsonl"},
        {"type": "model_change", "modelId": "m1"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        said(role="assistant", content="ho", model="m2"),
        {"type": "model_change", "modelId": None},
        said(role="toolResult", toolCallId="c", content=[{"type": "text", "text": "out"}]),
        said(role="bashExecution", command="ls", output="a\nb"),
        said(role="bashExecution", command="true", output=None),
        {"type": "message", "message": "no object"},
    )
    stream = read(path)
    assert stream.told() == [
        ("assistant", "ho"),
        ("tool", "out"),
        ("bashExecution", "$ ls\na\nb"),
        ("bashExecution", "$ true\n"),
    ]
    assert stream.only[1]["toolCallId"] == "c"
    info = stream.only_info
    assert (info["model"], info["metadata"]["thinkingLevel"]) == ("m2", "high")
    assert info["metadata"]["records"] == [{"type": "message", "message": "no object"}]
    assert info["parent"] == {"sessionId": "pi-older", "seq": None}
    assert stream.ignored == {"model_change": 2, "thinking_level_change": 1}


def test_an_empty_file_is_no_session(tmp_path: Path) -> None:
    """Of a file without a record nothing is made."""
    path = lines(tmp_path / "2026_z.jsonl", b"")
    assert read(path, "pi").starts == {}
