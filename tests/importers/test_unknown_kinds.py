"""Next week's format is noticed: a record, message or block of a kind that an importer does not know is counted, and costs nothing
else. Each tool's fixture is written again with a made-up kind in place of a known one, or next to it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import test_agents_of_today as today
import test_cursor_import as cursor
import test_database_imports as databases
import test_zed_import as zed
from sources import FILES
from test_chatgpt_import import exported, node, talk

from sessiond.importers import registry
from sessiond.importers.record import open_source
from tests.importers.collected import Stream, lines, read

Write = Callable[[Path], Path]
NEW = "ofNextWeek"


def with_record(records: list[dict[str, Any]], record: dict[str, Any]) -> Write:
    """Lines, with one more in front of the last."""
    return lambda folder: lines(folder / f"session-{today.S}.jsonl", *records[:-1], record, records[-1])


def in_table(write: Callable[[Path], Path], name: str, table: str, column: str, old: str, new: str) -> Write:
    """A database in which a value of the first row that has it is another one."""

    def written(folder: Path) -> Path:
        path = write(folder / name)
        with closing(sqlite3.connect(path)) as db:
            query = f"SELECT rowid, {column} FROM {table} WHERE instr({column}, ?) ORDER BY rowid LIMIT 1"
            [(row, value)] = db.execute(query, (old,)).fetchall()
            value = value.decode() if isinstance(value, bytes) else value
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value.replace(old, new, 1), row))
            db.commit()
        return path

    return written


def opencode(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE session (id TEXT, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, time_created INT, time_updated INT);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'p', NULL, '/w', 'Talk', 1700000000000, 1700000009000);
        INSERT INTO message VALUES ('msg_1', 'ses_1', 1700000000000, 1700000000000, '{"role": "user"}');
        INSERT INTO part VALUES ('p1', 'msg_1', 'ses_1', 0, '{"type": "text", "text": "hi"}');
        """)
    return path


def continue_(folder: Path) -> Path:
    path = folder / "s.json"
    content = [{"type": "text", "text": "list"}, {"type": NEW, "value": 1}]
    history = [{"message": {"role": "user", "content": content}, "contextItems": []}]
    path.write_text(json.dumps({"sessionId": "s", "title": "T", "workspaceDirectory": "/w", "history": history}))
    return path


def cline(folder: Path) -> Path:
    path = folder / "tasks" / "1700000000000" / "api_conversation_history.json"
    path.parent.mkdir(parents=True)
    content = [{"type": "text", "text": "<task>\ndo it\n</task>"}, {"type": NEW, "value": 1}]
    more = {"role": "user", "content": "<environment_details>y</environment_details>"}
    path.write_text(json.dumps([{"role": "user", "content": content, "ts": 1700000005000}, more]))
    return path


def chatgpt(content: Any) -> Write:
    nodes = [
        node("root", None, ["u"]),
        node("u", "root", ["a"], "user", "hi"),
        node("a", "u", [], "assistant", content),
    ]
    return lambda folder: exported(folder / "conversations.json", talk(nodes, current_node="a"))


GEMINI = [
    {"sessionId": "g1", "projectHash": "h", "startTime": "2026-11-22T10:00:00Z"},
    today.gemini("m1", "user", [{"text": "hi"}]),
    today.gemini("m2", "gemini", "ho"),
]
SOURCES: dict[str, tuple[str, Write, str]] = {
    "qwen, record": (
        "qwen", with_record(today.QWEN, today.qwen("u6", "u5", "system", subtype=NEW, systemPayload={})), f"system/{NEW}",
    ),
    "qwen, part": (
        "qwen", with_record(today.QWEN, today.qwen("u6", "u5", "user", **today.said("user", {NEW: 1}))), f"block {NEW}",
    ),
    "gemini, operator": ("gemini-cli", with_record(GEMINI, {f"${NEW}": {}}), f"${NEW}"),
    "gemini, message": ("gemini-cli", with_record(GEMINI, today.gemini("m3", NEW, "x")), NEW),
    "gemini, part": ("gemini-cli", with_record(GEMINI, today.gemini("m3", "user", [{NEW: "x"}])), f"block {NEW}"),
    "opencode": ("opencode", in_table(opencode, "opencode.db", "part", "data", '"text"', f'"{NEW}"'), f"block {NEW}"),
    "crush": (
        "crush", in_table(databases.crush, "crush.db", "messages", "parts", '"type": "text"', f'"type": "{NEW}"'), f"block {NEW}",
    ),
    "continue": ("continue", continue_, f"block {NEW}"),
    "cline": ("cline", cline, f"block {NEW}"),
    "chatgpt, content": ("chatgpt", chatgpt({"content_type": NEW, "text": "x"}), NEW),
    "chatgpt, part": ("chatgpt", chatgpt({"content_type": "text", "parts": [{"content_type": NEW}]}), f"block {NEW}"),
    "llm": ("llm", in_table(today.llm_db, "logs.db", "parts", "type", "text", NEW), f"block {NEW}"),
    "zed": ("zed", lambda folder: zed.threads(folder / "threads.db"), "OfNextWeek"),
    "cursor": (
        "cursor", in_table(cursor.state, "state.vscdb", "cursorDiskKV", "value", '"type": 1', '"type": 77'), "type-77",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_counted(tmp_path: Path, name: str) -> None:
    tool, write, kind = SOURCES[name]
    stream = read(write(tmp_path), tool)
    assert stream.unknown == {kind: 1}
    assert any(stream.messages.values())
    assert stream.skipped == []


@pytest.mark.parametrize("name", FILES)
def test_every_importer_counts_blocks_or_keeps_what_it_does_not_know(tmp_path: Path, name: str) -> None:
    """What the fixtures of the tools have is known, but for what they have of next week."""
    tool, write = FILES[name]
    stream = Stream(registry.BY_NAME[tool].read(str(write(tmp_path)), open_source))
    strange = {kind for kind in stream.unknown if "next_week" not in kind.lower() and "NextWeek" not in kind}
    assert strange <= {"without a type", "message 99"}


def test_a_compression_of_qwen_is_a_message(tmp_path: Path) -> None:
    """Its summary is the first thing that the model is sent from then on."""
    sent = [
        {"role": "user", "parts": [{"text": "<state_snapshot>so far</state_snapshot>"}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
    ]
    payload = {"info": {"originalTokenCount": 900, "newTokenCount": 100}, "compressedHistory": sent}
    record = today.qwen("u6", "u5", "system", subtype="chat_compression", systemPayload=payload)
    stream = read(with_record(today.QWEN, record)(tmp_path))
    [summary] = [one for one in stream.only if one["role"] == "system"]
    assert summary["content"] == "<state_snapshot>so far</state_snapshot>"
    assert summary["metadata"] == {"compaction": True, "originalTokenCount": 900, "newTokenCount": 100}
    assert stream.unknown == {}
