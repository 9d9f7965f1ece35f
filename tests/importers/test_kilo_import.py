"""Kilo Code's database, in the shape that version 7.8 wrote, driven by a fake model. Its older tasks are in
`test_roo_import.py`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT, slug TEXT NOT NULL, directory TEXT NOT NULL,
  title TEXT NOT NULL, version TEXT NOT NULL, cost REAL NOT NULL, tokens_input INTEGER NOT NULL, model TEXT,
  time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL,
  data TEXT NOT NULL);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, time_created INTEGER NOT NULL,
  data TEXT NOT NULL);
"""
T = 1795442801962
STATE = {
    "status": "completed",
    "input": {"command": "ls"},
    "output": "apple.txt\n",
    "metadata": {"exit": 0},
    "title": "ls",
}
MESSAGES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"role": "user", "time": {"created": T}, "agent": "code"}, [{"type": "text", "text": "What is here?"}]),
    (
        {"role": "assistant", "modelID": "m", "tokens": {"input": 100, "output": 10}, "finish": "tool-calls"},
        [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "Let me look.", "time": {"start": T}},
            {"type": "tool", "tool": "bash", "callID": "c1", "state": STATE},
            {
                "type": "tool",
                "tool": "bash",
                "callID": "c2",
                "state": {"status": "error", "input": {}, "error": "denied"},
            },
            {"type": "step-finish", "reason": "tool-calls"},
        ],
    ),
    ({"role": "user"}, [{"type": "text", "text": "reminder", "synthetic": True}]),
    (
        {"role": "assistant", "error": {"name": "x"}},
        [{"type": "text", "text": "An apple."}, {"type": "ofNextWeek", "a": 1}],
    ),
]


def database(folder: Path, *more: tuple[str, str]) -> Path:
    path = folder / "kilo.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(TABLES)
        for key, parent in (("s1", None), ("s2", "s1")):
            row = (key, "p", parent, "brave-fox", "/work", "Fruit", "7.8.1", 0.5, 0, '{"id": "m"}', T, T + 9)
            db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for nth, (about, parts) in enumerate(MESSAGES):
            db.execute("INSERT INTO message VALUES (?, 's1', ?, ?, ?)", (f"m{nth}", T + nth, T, json.dumps(about)))
            for place, part in enumerate(parts):
                db.execute(
                    "INSERT INTO part VALUES (?, ?, 's1', ?, ?)", (f"p{nth}{place}", f"m{nth}", T, json.dumps(part))
                )
        for key, data in more:
            db.execute("INSERT INTO message VALUES (?, 's2', ?, ?, ?)", (key, T, T, data))
        db.commit()
    return path


def test_sessions(tmp_path: Path) -> None:
    """A tool's part is a call and its result, calls of one answer are one message; what Kilo said in the user's name is marked; a subagent's
    session has a parent.
    """
    path = database(tmp_path)
    assert recognised(path) == "kilo"
    stream = read(path)
    messages = stream.messages["s1"]
    assert told(messages) == [
        ("user", "What is here?"),
        ("assistant", "Let me look."),
        ("tool", "apple.txt\n"),
        ("tool", "denied"),
        ("user", [{"type": "text", "text": "reminder", "synthetic": True}]),
        ("assistant", [{"type": "text", "text": "An apple."}, {"type": "ofNextWeek", "a": 1}]),
    ]
    asked, called, result, failed, reminder, answer = messages
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "bash", {"command": "ls"}), ("c2", "bash", {})])
    assert called["metadata"]["tokens"] == {"input": 100, "output": 10, "model": "m", "request": called["id"]}
    assert (result["toolCallId"], result["metadata"]["title"]) == ("c1", "ls")
    assert (failed["toolCallId"], failed["metadata"]["isError"]) == ("c2", True)
    assert (reminder["metadata"]["injected"], answer["status"]) == (True, "error")
    assert asked["timestamp"] == "2026-11-23T14:06:41.962Z"
    assert stream.ignored == {"step-finish": 1, "step-start": 1}
    info = stream.info["s1"]
    assert (info["name"], info["cwd"], info["model"], info["metadata"]["cost"]) == ("Fruit", "/work", "m", 0.5)
    assert stream.info["s2"]["parent"] == {"sessionId": "kilo-s1", "seq": None}


def test_damage_is_reported(tmp_path: Path) -> None:
    """A message whose data is not JSON is an empty one of unknown role; a file that is not a database is reported."""
    stream = read(database(tmp_path, ("m9", '{"role": "us')))
    assert told(stream.messages["s2"]) == [("unknown", "")]
    path = tmp_path / "text" / "kilo.db"
    path.parent.mkdir()
    path.write_text("no database\n")
    assert "cannot be read" in read(path).skipped[0].reason


def test_opencodes_database_is_not_recognised(tmp_path: Path) -> None:
    """The tables are the same; the file's name decides."""
    path = database(tmp_path).rename(tmp_path / "opencode.db")
    assert recognised(path) == "opencode"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", database(tmp_path), 6)
