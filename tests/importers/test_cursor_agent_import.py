"""Cursor's command: a database of blobs."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.test_warp_import import field
from tests.importers.tools import calls, imported_twice, told

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": [{"type": "text", "text": "<user_info>\nOS: Linux\n</user_info>"}]},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nWhat is here?\n</user_query>"}]},
    {
        "role": "assistant",
        "id": "1",
        "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}},
        ],
    },
    {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "apple.txt"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "An apple."}]},
    {"ofNextWeek": "kept"},
]
LOST = {"role": "user", "content": "taken back"}


def store(folder: Path, *more: bytes) -> Path:
    path = folder / "chats" / "abc" / "agent-1" / "store.db"
    path.parent.mkdir(parents=True)
    blobs = [json.dumps(one).encode() for one in [*MESSAGES, LOST]] + list(more)
    ids = [hashlib.sha256(blob).digest() for blob in blobs]
    inner = b"".join(field(1, one) for one in ids[3:7])
    root = b"".join(field(1, one) for one in [*ids[:3], hashlib.sha256(inner).digest()]) + field(5, "note")
    blobs += [inner, root]
    about = {
        "agentId": "agent-1",
        "latestRootBlobId": hashlib.sha256(root).hexdigest(),
        "name": "Fruit",
        "createdAt": 1700000000000,
    }
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        db.executemany("INSERT INTO blobs VALUES (?, ?)", [(hashlib.sha256(one).hexdigest(), one) for one in blobs])
        db.execute(
            "INSERT INTO meta VALUES ('0', ?)",
            (json.dumps({**about, "mode": "agent", "lastUsedModel": "m"}).encode().hex(),),
        )
        db.commit()
    return path


def test_a_conversation(tmp_path: Path) -> None:
    """The newest root gives the order; a message that it does not reach comes last, and is marked."""
    path = store(tmp_path)
    assert recognised(path) == "cursor-agent"
    stream = read(path)
    assert told(stream.only) == [
        ("system", "You are an agent."),
        ("user", "<user_info>\nOS: Linux\n</user_info>"),
        ("user", "What is here?"),
        ("assistant", "Let me look."),
        ("tool", "apple.txt"),
        ("assistant", "An apple."),
        ("user", "taken back"),
    ]
    system, added, asked, called, result, _, lost = stream.only
    assert [one.get("metadata", {}).get("injected") for one in (system, added, asked)] == [True, True, None]
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "Shell", {"command": "ls"})])
    assert (result["toolCallId"], lost["metadata"]) == ("c1", {"branch": True})
    info = stream.only_info
    assert (info["name"], info["model"], info["createdAt"]) == ("Fruit", "m", "2023-11-14T22:13:20.000Z")
    assert info["metadata"]["records"] == [{"ofNextWeek": "kept"}]
    assert (info["metadata"]["mode"], list(stream.starts)) == ("agent", ["agent-1"])
    assert stream.ignored == {"blobs that are not messages": 2}


def test_damage_costs_a_blob(tmp_path: Path) -> None:
    """A message that is cut off is reported; without what names the root, all messages come as they were stored."""
    path = store(tmp_path, b'{"role": "us')
    stream = read(path)
    assert len(stream.only) == 7
    assert "blob" in stream.skipped[0].reason
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE meta SET value = 'junk'")
        db.commit()
    stream = read(path)
    assert len(stream.only) == 7
    assert not any(one.get("metadata", {}).get("branch") for one in stream.only)


def test_another_store_is_not_recognised(tmp_path: Path) -> None:
    """The tables decide."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE things (id TEXT)")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", store(tmp_path), 7)
