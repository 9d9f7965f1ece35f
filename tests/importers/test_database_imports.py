"""llm, Goose, opencode and Crush: SQLite files, read without a trace."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from collected import Stream, read, recognised, snapshot

from sessiond.importers import registry
from sessiond.importers.record import open_source

CRUSH = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, cost REAL,
          updated_at INTEGER NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
          parts BLOB NOT NULL, model TEXT, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, finished_at INTEGER);
"""


def add_crush(db: sqlite3.Connection, key: str, role: str, parts: list[dict[str, Any]], session: str = "s1") -> None:
    db.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, 'm', 1700000000, 1700000001, NULL)",
        (key, session, role, json.dumps(parts)),
    )


def crush(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(CRUSH)
        db.execute("INSERT INTO sessions VALUES ('s1', NULL, 'Talk', 0.5, 1700000100, 1700000000)")
        db.execute("INSERT INTO sessions VALUES ('s2', 's1', 'Sub', 0, 1700000100, 1700000050)")
        add_crush(db, "m1", "user", [{"type": "text", "data": {"text": "hi"}}])
        add_crush(
            db,
            "m2",
            "assistant",
            [
                {"type": "reasoning", "data": {"thinking": "hm", "signature": "x"}},
                {"type": "text", "data": {"text": "ho"}},
                {"type": "tool_call", "data": {"id": "c", "name": "ls", "input": "{}"}},
                {"type": "finish", "data": {"reason": "canceled", "time": 1}},
            ],
        )
        add_crush(
            db,
            "m3",
            "tool",
            [{"type": "tool_result", "data": {"tool_call_id": "c", "name": "ls", "content": "a", "is_error": True}}],
        )
        db.commit()
    return path


def test_crush(tmp_path: Path) -> None:
    """Parts become text, thinking, calls and results; a subagent's session leads to its parent."""
    path = crush(tmp_path / "crush.db")
    assert recognised(path) == "crush"
    stream = read(path)
    assert [(m["role"], m["content"]) for m in stream.messages["s1"]] == [
        ("user", "hi"),
        ("assistant", "ho"),
        ("tool", "a"),
    ]
    second, third = stream.messages["s1"][1:]
    assert (second["thinking"], second["status"]) == ("hm", "interrupted")
    assert second["toolCalls"] == [{"id": "c", "name": "ls", "arguments": "{}"}]
    assert (third["toolCallId"], third["metadata"]["isError"]) == ("c", True)
    assert stream.info["s2"]["parent"] == {"sessionId": "crush-s1", "seq": None}
    assert stream.info["s1"]["createdAt"] == "2023-11-14T22:13:20.000Z"


def test_goose(tmp_path: Path) -> None:
    """Typed parts, nested results of both shapes, UTC times and the working folder."""
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT,
          created_at TIMESTAMP, updated_at TIMESTAMP, extension_data TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
          created_timestamp INTEGER, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('20260101_1', '', 'Described', '/w', '2026-01-01 10:00:00', '2026-01-01 11:00:00', '{}');
        """)
        rows = [
            ("user", [{"type": "text", "text": "hi"}]),
            (
                "assistant",
                [
                    {"type": "thinking", "thinking": "hm"},
                    {
                        "type": "toolRequest",
                        "id": "c",
                        "toolCall": {"status": "success", "value": {"name": "sh", "arguments": {"x": 1}}},
                    },
                ],
            ),
            (
                "user",
                [
                    {
                        "type": "toolResponse",
                        "id": "c",
                        "toolResult": {"status": "success", "value": [{"type": "text", "text": "out"}]},
                    }
                ],
            ),
            (
                "user",
                [
                    {
                        "type": "toolResponse",
                        "id": "d",
                        "toolResult": {
                            "status": "success",
                            "value": {"content": [{"type": "text", "text": "new"}], "isError": True},
                        },
                    }
                ],
            ),
        ]
        for n, (role, content) in enumerate(rows):
            db.execute(
                "INSERT INTO messages VALUES (?, '20260101_1', ?, ?, ?, NULL, 7, '{\"userVisible\": true}')",
                (n + 1, role, json.dumps(content), 1767261600 + n),
            )
        db.commit()
    assert recognised(path) == "goose"
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", ""), ("tool", "out"), ("tool", "new")]
    assert stream.only[1]["toolCalls"] == [{"id": "c", "name": "sh", "arguments": {"x": 1}}]
    assert stream.only[3]["metadata"]["isError"] is True
    assert (stream.only_info["name"], stream.only_info["cwd"], stream.only_info["createdAt"]) == (
        "Described",
        "/w",
        "2026-01-01T10:00:00.000Z",
    )


def test_opencode(tmp_path: Path) -> None:
    """A tool part is the call within its message and a result after it; steps are kept in the metadata."""
    path = tmp_path / "opencode.db"
    state = {
        "status": "completed",
        "input": {"f": "x"},
        "output": "ok",
        "title": "t",
        "time": {"start": 1700000002000, "end": 1700000003000},
    }
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
          title TEXT, time_created INTEGER, time_updated INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'p', NULL, '/w', 'Talk', 1700000000000, 1700000009000);
        """)
        for key, role, at in (("msg_1", "user", 1700000000000), ("msg_2", "assistant", 1700000001000)):
            about = {"role": role, "modelID": "mm"} if role == "assistant" else {"role": role}
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", (key, at, at, json.dumps(about)))
        parts = [
            ("p1", "msg_1", {"type": "text", "text": "hi"}),
            ("p2", "msg_2", {"type": "step-start"}),
            ("p3", "msg_2", {"type": "reasoning", "text": "hm"}),
            ("p4", "msg_2", {"type": "text", "text": "ho"}),
            ("p5", "msg_2", {"type": "tool", "tool": "edit", "callID": "c", "state": state}),
        ]
        db.executemany("INSERT INTO part VALUES (?, ?, 'ses_1', 0, ?)", [(k, m, json.dumps(d)) for k, m, d in parts])
        db.commit()
    assert recognised(path) == "opencode"
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", "ho"), ("tool", "ok")]
    assert stream.only[1]["thinking"] == "hm"
    assert stream.only[1]["toolCalls"] == [{"id": "c", "name": "edit", "arguments": {"f": "x"}}]
    assert (stream.only[2]["toolCallId"], stream.only[2]["timestamp"]) == ("c", "2023-11-14T22:13:23.000Z")
    assert (stream.only_info["model"], stream.only_info["cwd"]) == ("mm", "/w")


def llm_db(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT,
          options_json TEXT, response TEXT, response_json TEXT,
          conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT);
        CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, arguments TEXT, tool_call_id TEXT);
        CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, output TEXT, tool_call_id TEXT);
        INSERT INTO conversations VALUES ('c1', 'Ten names', 'm');
        INSERT INTO responses VALUES ('r1', 'm', 'hi', 'be kind', NULL, '{"t": 1}', 'ho', NULL, 'c1', 5, '2026-01-01T10:00:00.123456');
        INSERT INTO responses VALUES ('r2', 'm', '', NULL, NULL, NULL, 'so', NULL, 'c1', 5, '2026-01-01T10:00:01+00:00');
        INSERT INTO responses VALUES ('r3', 'm', 'alone', NULL, NULL, NULL, 'yes', NULL, NULL, 5, '2026-01-02T10:00:00');
        INSERT INTO tool_calls VALUES (1, 'r1', 1, 'f', '{"a": 1}', 'tc');
        INSERT INTO tool_results VALUES (1, 'r2', 1, 'f', 'out', 'tc');
        """)
    return path


def test_llm(tmp_path: Path) -> None:
    """A row is a prompt and an answer; calls and results are those of newer versions; a row of no conversation is a
    session."""
    path = llm_db(tmp_path / "logs.db")
    assert recognised(path) == "llm"
    stream = read(path)
    told = [(m["role"], m["content"]) for m in stream.messages["c1"]]
    assert told == [("system", "be kind"), ("user", "hi"), ("assistant", "ho"), ("tool", "out"), ("assistant", "so")]
    assert stream.messages["c1"][2]["toolCalls"] == [{"id": "tc", "name": "f", "arguments": {"a": 1}}]
    assert stream.messages["c1"][2]["metadata"]["options_json"] == {"t": 1}
    assert stream.messages["c1"][0]["timestamp"] == "2026-01-01T10:00:00.123Z"
    assert [m["content"] for m in stream.messages["r3"]] == ["alone", "yes"]
    assert stream.info["c1"]["name"] == "Ten names"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A Crush database in WAL mode, with a writer that has it open and rows in the log only."""
    path = crush(tmp_path / "db" / "crush.db" if (tmp_path / "db").mkdir() is None else tmp_path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    add_crush(db, "m4", "user", [{"type": "text", "data": {"text": "in the log only"}}])
    yield path, db
    db.close()


def test_a_log_beside_the_file_is_read_and_nothing_is_touched(live: tuple[Path, sqlite3.Connection]) -> None:
    """What is only in the write-ahead log is there; no byte, time or file of the source changes. The log's index is memory that
    this process shares with itself.
    """
    path, _ = live
    before = snapshot(path.parent)
    stream = read(path)
    assert [m["content"] for m in stream.messages["s1"]][-1] == "in the log only"
    after = snapshot(path.parent)
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in ("crush.db", "crush.db-wal"))


def test_a_file_of_its_own_is_not_touched(tmp_path: Path) -> None:
    """Without a log no log is made, even of a file that is in WAL mode, and even in a folder that may be written."""
    path = crush(tmp_path / "crush.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = snapshot(tmp_path)
    assert list(before) == ["crush.db"]
    assert len(read(path).messages["s1"]) == 3
    assert snapshot(tmp_path) == before


def test_a_locked_file_is_read(tmp_path: Path) -> None:
    """An exclusive lock and an unfinished change of the other tool neither stop us nor show."""
    path = crush(tmp_path / "crush.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        add_crush(db, "m9", "user", [{"type": "text", "data": {"text": "not committed"}}])
        before = {name: data for name, (data, _) in snapshot(tmp_path).items()}
        stream = read(path)
        assert len(stream.messages["s1"]) == 3
        assert {name: data for name, (data, _) in snapshot(tmp_path).items()} == before


def test_an_unknown_schema_and_a_broken_file_are_reported(tmp_path: Path) -> None:
    """The message names what is missing; bytes that are not database end the same way."""
    path = tmp_path / "crush.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE sessions (id TEXT, parent_session_id TEXT, title TEXT)")
        db.execute("CREATE TABLE messages (id TEXT, parts TEXT)")
    stream = read(path)
    assert "session_id" in stream.skipped[0].reason
    whole = crush(tmp_path / "whole.db").read_bytes()
    path.write_bytes(whole[:5000] + os.urandom(2000))
    assert read(path, "crush").skipped
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 100)
    assert read(path, "crush").skipped


def test_a_database_that_changes_while_it_is_copied_is_copied_again(live: tuple[Path, sqlite3.Connection]) -> None:
    """The other tool ended, and took its log with it, after the first half of the copy: what is read is of one moment, and it
    is said that the file changed.
    """
    path, db = live
    os.unlink(f"{path}-shm")
    closed = []

    def opener(name: str) -> BinaryIO:
        file = open_source(name)
        if name.endswith("-wal") and not closed:
            closed.append(name)
            db.close()  # moves the log into the file and removes it
        return file

    stream = Stream(registry.BY_NAME["crush"].read(str(path), opener))
    assert closed and not os.path.exists(closed[0])
    assert [m["content"] for m in stream.messages["s1"]][-1] == "in the log only"
    assert ["changed while it was being read" in one.reason for one in stream.repaired] == [True]


def test_a_database_that_never_stands_still_is_read_all_the_same(live: tuple[Path, sqlite3.Connection]) -> None:
    """After a few attempts the last copy counts, and it is said that it may not be the whole."""
    path, _ = live
    os.unlink(f"{path}-shm")

    def opener(name: str) -> BinaryIO:
        stat = os.stat(path)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
        return open_source(name)

    stream = Stream(registry.BY_NAME["crush"].read(str(path), opener))
    assert len(stream.messages["s1"]) == 4
    assert len(stream.repaired) == 1


def test_odd_parts_of_crush_are_kept(tmp_path: Path) -> None:
    """Parts may be a blob; what no field takes stays a block; several results name all their calls; a row may have no model."""
    path = crush(tmp_path / "crush.db")
    parts = [
        {"type": "tool_result", "data": {"tool_call_id": "c1", "content": "one"}},
        {"type": "tool_result", "data": {"tool_call_id": "c2", "content": {"n": 2}}},
        {"type": "binary", "data": {"path": "x"}},
        None,
        "loose",
    ]
    with closing(sqlite3.connect(path)) as db:
        row = ("m8", "s1", "tool", json.dumps(parts).encode(), None, 1700000009, 1700000009, None)
        db.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO messages VALUES ('m9', 's1', 'user', '5', '', 1700000010, 0, NULL)")
        db.commit()
    message, number = read(path).messages["s1"][-2:]
    assert [b["text"] for b in message["content"][:2]] == ["one", '{"n": 2}']
    assert message["content"][2:] == [parts[2], "loose"]
    assert (message["toolCallId"], message["metadata"]["toolCallIds"]) == ("c1", ["c1", "c2"])
    assert number["content"] == [5]


def test_notices_of_goose_are_nobodys_words(tmp_path: Path) -> None:
    """What Goose shows in its own name is a message of role `system`, injected, with the part as its record; beside words it is
    in their message's metadata. It names no session, is no unknown kind, and is searched by its text. Reasoning is thinking.
    """
    path = tmp_path / "sessions.db"
    notice = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "a notice"}
    compacted = {"type": "conversationCompacted", "msg": "Conversation compacted"}
    asks = {"type": "toolConfirmationRequest", "id": "c", "toolName": "sh", "arguments": {}, "prompt": "May I?"}
    rows: list[tuple[str, list[dict[str, Any]]]] = [
        ("assistant", [compacted]),
        ("user", [{"type": "text", "text": "go on"}]),
        ("assistant", [{"type": "reasoning", "text": "hm"}, notice, {"type": "text", "text": "going on"}]),
        ("assistant", [asks]),
    ]
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE sessions (id TEXT PRIMARY KEY);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
        INSERT INTO sessions VALUES ('s');
        """)
        for n, (role, parts) in enumerate(rows):
            db.execute("INSERT INTO messages VALUES (?, 's', ?, ?, ?)", (n, role, json.dumps(parts), 1767261600 + n))
        db.commit()
    stream = read(path, "goose")
    assert stream.told() == [
        ("system", "Conversation compacted"),
        ("user", "go on"),
        ("assistant", "going on"),
        ("system", ""),
    ]
    first, _, said, asked = stream.only
    assert (first["metadata"], asked["metadata"]["record"]) == ({"record": [compacted], "injected": True}, [asks])
    assert (said["thinking"], said["metadata"]["notices"]) == ("hm", [notice])
    assert (stream.only_info["name"], stream.unknown) == ("go on", {})


def test_odd_parts_of_goose_are_kept(tmp_path: Path) -> None:
    """Calls that failed to be one, results that are errors or bare values, and words that no person saw."""
    path = tmp_path / "sessions.db"

    def answer(key: str, outcome: Any) -> dict[str, Any]:
        return {"type": "toolResponse", "id": key, "toolResult": outcome}

    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
          created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('s', 'D');
        """)
        rows: list[tuple[str, Any, Any]] = [
            ("user", "bare", {"userVisible": False}),
            (
                "assistant",
                [{"type": "toolRequest", "id": "c", "toolCall": {"status": "error", "error": "bad"}}, None],
                None,
            ),
            ("user", [answer("c", {"status": "error", "error": "no such tool"}), answer("d", "plain")], None),
            (
                "user",
                [answer("e", {"status": "success", "value": {"content": [{"type": "text", "text": "ok"}]}})],
                None,
            ),
            ("user", [answer("f", None)], None),
            ("user", [answer("g", {"status": "success", "value": {"rows": 1}})], None),
        ]
        for n, (role, content, about) in enumerate(rows):
            values = (n, role, json.dumps(content), 1767261600 + n, about and json.dumps(about))
            db.execute("INSERT INTO messages VALUES (?, 's', ?, ?, ?, ?)", values)
        db.commit()
    stream = read(path)
    assert [m["role"] for m in stream.only] == ["user", "assistant", "tool", "tool", "tool", "tool"]
    assert stream.only[0]["metadata"]["injected"] is True
    call = stream.only[1]["toolCalls"][0]
    assert (call["id"], json.loads(call["arguments"])) == ("c", {"status": "error", "error": "bad"})
    assert [b["text"] for b in stream.only[2]["content"]] == ["no such tool", "plain"]
    assert stream.only[2]["metadata"] == {"isError": True, "toolCallIds": ["c", "d"]}
    assert [m["content"] for m in stream.only[3:]] == ["ok", "", '{"rows": 1}']
    assert "isError" not in stream.only[3].get("metadata", {})


def test_odd_parts_of_opencode_are_kept(tmp_path: Path) -> None:
    """A call that has no answer yet, one that failed, a file, and a prompt that the tool made up."""
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, directory TEXT, title TEXT, time_created INTEGER, time_updated INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'p', '/w', 'Talk', 1700000000000, 1700000009000);
        """)
        for n, role in enumerate(("user", "assistant")):
            row = (f"m{n}", 1700000000000 + n, json.dumps({"role": role}))
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", row)
        parts = [
            ("p1", "m0", {"type": "text", "text": "made up", "synthetic": True}),
            ("p2", "m1", {"type": "tool", "tool": "a", "callID": "c1", "state": {"status": "running"}}),
            (
                "p3",
                "m1",
                {"type": "tool", "tool": "b", "callID": "c2", "state": {"status": "error", "error": "denied"}},
            ),
            ("p4", "m1", {"type": "file", "url": "x"}),
        ]
        db.executemany("INSERT INTO part VALUES (?, ?, ?)", [(k, m, json.dumps(d)) for k, m, d in parts])
        db.commit()
    prompt, answer, result = read(path).only
    assert prompt["metadata"]["injected"] is True
    assert answer["content"] == [{"type": "file", "url": "x"}]
    assert [c["id"] for c in answer["toolCalls"]] == ["c1", "c2"]
    assert (result["content"], result["toolCallId"], result["metadata"]["isError"]) == ("denied", "c2", True)


def test_llms_first_tables_are_read(tmp_path: Path) -> None:
    """Before it had tools, conversations or model names, a response was a row; an empty log gives nothing."""
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT)"
        )
        db.commit()
        assert read(path).starts == {}
        db.execute("INSERT INTO responses VALUES ('r1', NULL, 'hi', 'ho', NULL, '2026-01-01T10:00:00')")
        db.commit()
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", "ho")]
    assert "model" not in stream.only_info
