"""Zed's threads."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard
from collected import read, recognised

from sessiond.importers import zed
from tests.importers.tools import calls, imported_twice, told

TABLE = """
CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT NOT NULL, updated_at TEXT NOT NULL, data_type TEXT NOT NULL,
  data BLOB NOT NULL, parent_id TEXT, folder_paths TEXT, created_at TEXT)
"""
T = "2025-10-01T10:00:00.000Z"
THREAD: dict[str, Any] = {
    "version": "0.3.0",
    "title": "Fruit",
    "updated_at": "2025-10-01T10:05:00Z",
    "model": {"provider": "zed.dev", "model": "claude-x"},
    "imported": False,
    "request_token_usage": {"u1": {"input_tokens": 5, "output_tokens": 2}},
    "messages": [
        {
            "User": {
                "id": "u1",
                "content": [{"Text": "What is in "}, {"Mention": {"uri": {"File": {"abs_path": "/w/a"}}}}],
            }
        },
        {
            "Agent": {
                "content": [
                    {"Thinking": {"text": "hm", "signature": "s"}},
                    {"Text": "I look."},
                    {"ToolUse": {"id": "t1", "name": "read_file", "raw_input": "{}", "input": {"path": "a"}}},
                ],
                "tool_results": {
                    "t1": {
                        "tool_use_id": "t1",
                        "tool_name": "read_file",
                        "is_error": False,
                        "content": {"Text": "apples"},
                    }
                },
            }
        },
        "Resume",
        {"Agent": {"content": [{"Text": "Apples."}], "tool_results": {}}},
        {"OfNextWeek": {"words": "kept"}},
    ],
}
OLDER = {
    "version": "0.2.0",
    "summary": "Older",
    "updated_at": T,
    "messages": [
        {"id": 0, "role": "user", "segments": [], "context": "<files>a</files>", "tool_uses": [], "tool_results": []},
        {"id": 2, "role": "user", "segments": [{"type": "text", "text": "hi"}], "tool_uses": [], "tool_results": []},
        {
            "id": 1,
            "role": "assistant",
            "segments": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "ho"}],
            "tool_uses": [{"id": "t", "name": "ls", "input": {}}],
            "tool_results": [{"tool_use_id": "t", "is_error": True, "content": "denied"}],
        },
    ],
}


def threads(path: Path, *more: tuple[str, str, bytes]) -> Path:
    packed = zstandard.ZstdCompressor().compress(json.dumps(THREAD).encode())
    rows = [("z1", "zstd", packed), ("z2", "json", json.dumps(OLDER).encode()), *more]
    with closing(sqlite3.connect(path)) as db:
        db.execute(TABLE)
        for key, kind, data in rows:
            db.execute("INSERT INTO threads VALUES (?, 'Summary', ?, ?, ?, 'z0', '/work', ?)", (key, T, kind, data, T))
        db.commit()
    return path


def test_threads(tmp_path: Path) -> None:
    """Compressed or not: a result follows its call, a mention stays a block, and an unknown message is kept."""
    path = threads(tmp_path / "threads.db")
    assert recognised(path) == "zed"
    stream = read(path)
    messages = stream.messages["z1"]
    mention = {"type": "mention", "value": {"uri": {"File": {"abs_path": "/w/a"}}}}
    assert told(messages) == [
        ("user", [{"type": "text", "text": "What is in "}, mention]),
        ("assistant", "I look."),
        ("tool", "apples"),
        ("assistant", "Apples."),
        ("system", ""),
    ]
    assert (messages[1]["thinking"], calls(messages[1])) == ("hm", [("t1", "read_file", {"path": "a"})])
    assert (messages[2]["toolCallId"], messages[0]["id"]) == ("t1", "u1")
    assert messages[0]["metadata"] == {
        "requestTokenUsage": {"input_tokens": 5, "output_tokens": 2},
        "tokens": {"input": 5, "output": 2, "model": "claude-x"},
    }
    assert messages[4]["metadata"]["record"] == {"OfNextWeek": {"words": "kept"}}
    info = stream.info["z1"]
    assert (info["name"], info["cwd"], info["model"], info["createdAt"]) == ("Fruit", "/work", "claude-x", T)
    assert info["parent"] == {"sessionId": "zed-z0", "seq": None}
    assert stream.ignored == {"Resume": 1}


def test_an_older_thread(tmp_path: Path) -> None:
    """Before version 0.3: segments, and lists of calls and results."""
    messages = read(threads(tmp_path / "threads.db")).messages["z2"]
    assert told(messages) == [("user", "<files>a</files>"), ("user", "hi"), ("assistant", "ho"), ("tool", "denied")]
    assert (messages[2]["thinking"], messages[3]["metadata"]) == ("hm", {"isError": True})


def test_a_damaged_thread_costs_itself(tmp_path: Path, monkeypatch: Any) -> None:
    """Each is reported with its id and the reason; the others are imported."""
    packed = zstandard.ZstdCompressor().compress(b"[" * 100)
    (tmp_path / "large").mkdir()
    path = threads(
        tmp_path / "threads.db",
        ("z3", "zstd", b"junk"),
        ("z4", "json", b"{"),
        ("z5", "brotli", b"x"),
        ("z6", "json", b"[]"),
    )
    stream = read(path)
    assert set(stream.messages) == {"z1", "z2"}
    reasons = [one.reason for one in stream.skipped]
    assert [reason.partition(":")[0] for reason in reasons] == ["thread z3", "thread z4", "thread z5", "thread z6"]
    assert "cannot be decompressed" in reasons[0]
    assert "unknown type 'brotli'" in reasons[2]
    assert "not an object" in reasons[3]
    monkeypatch.setattr(zed, "_MAX_THREAD_BYTES", 50)
    assert (
        "larger than 50 bytes"
        in read(threads(tmp_path / "large" / "threads.db", ("z7", "zstd", packed))).skipped[-1].reason
    )


def test_an_unknown_schema_is_reported(tmp_path: Path) -> None:
    """The file has Zed's name, but not its columns."""
    path = tmp_path / "threads.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE threads (id TEXT, summary TEXT)")
    assert "lacks updated_at, data_type, data" in read(path).skipped[0].reason


def test_another_database_is_not_recognised(tmp_path: Path) -> None:
    """Another program may have threads."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE threads (id TEXT, summary TEXT)")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", threads(tmp_path / "threads.db"), 9)
