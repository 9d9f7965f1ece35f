"""llm: a thread that goes on with a conversation of before 0.32 begins with copies of its responses."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.importers.collected import read
from tests.importers.test_agents_of_today import SCHEMA
from tests.importers.test_usage import totals

CHAIN = [
    ("user", "sow peas"),
    ("assistant", "sown"),
    ("user", "sow peas"),
    ("assistant", "sown"),
    ("user", "and beans"),
    ("assistant", "also sown"),
]


def database(path: Path) -> Path:
    """Two exchanges of before, which say the same, and one turn. A prompt borrows from a fragment."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        db.execute("ALTER TABLE responses ADD COLUMN input_tokens INTEGER")
        db.execute("INSERT INTO fragments VALUES (1, 'and beans')")
        db.execute("INSERT INTO threads VALUES ('c', 'Bed', 'h5', NULL, '2026-11-23 10:00:00')")
        db.execute("INSERT INTO turns VALUES ('t', 'c', 'h4', 'h5', 'm', 9, '2026-11-23T10:00:00')")
        for number, (role, text) in enumerate(CHAIN):
            parent = f"h{number - 1}" if number else None
            db.execute("INSERT INTO messages VALUES (?, ?, ?, NULL)", (f"h{number}", parent, role))
            borrowed = json.dumps({"text_ref": [{"fragment": 1}]}) if text == "and beans" else None
            part = (f"h{number}", None if borrowed else text, borrowed)
            db.execute("INSERT INTO parts VALUES (NULL, ?, 0, 'text', NULL, ?, ?)", part)
        for day in (1, 2):
            row = (f"r{day}", "m", "sow peas", "sown", "c", f"2025-01-0{day}T10:00:00", day)
            db.execute("INSERT INTO responses VALUES (?, ?, ?, NULL, ?, ?, ?, ?)", row)
    return path


def test_what_a_thread_goes_on_with_has_the_times_of_its_responses(tmp_path: Path) -> None:
    """And their tokens, each once: the rows are not read again."""
    path = database(tmp_path / "logs.db")
    stream = read(path)
    assert stream.told() == CHAIN
    days = [message["timestamp"][:10] for message in stream.only]
    assert days == ["2025-01-01"] * 2 + ["2025-01-02"] * 2 + ["2026-11-23"] * 2
    assert stream.only_info["createdAt"][:10] == "2025-01-01"
    assert totals(path)[0] == 1 + 2 + 9


def test_an_answer_that_nobody_gave_before_is_of_the_turn(tmp_path: Path) -> None:
    path = database(tmp_path / "logs.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE responses SET response = 'something else'")
    assert {message["timestamp"][:10] for message in read(path).only} == {"2026-11-23"}
