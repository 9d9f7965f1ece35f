"""`sessiond import --report`: nothing is dropped without a word."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sessiond.model.values import epoch_ms
from tests.importers.collected import lines
from tests.importers.test_agents_of_today import claude
from tests.importers.test_opencode_v2 import Tables
from tests.shell import Shell


def test_a_report_for_each_tool(shell: Shell, tmp_path: Path) -> None:
    """Files, sessions, messages, bookkeeping, unknown kinds and warnings; added up over several paths."""
    folders = []
    for name in ("one", "two"):
        folders.append(str(tmp_path / name))
        lines(
            tmp_path / name / f"{name}.jsonl",
            claude(f"{name}-1", "user", parentUuid=None, message={"role": "user", "content": "hi"}),
            {"type": "progress", "sessionId": name},
            {"type": "brand-new", "sessionId": name},
            b'{"type": "user", "cut',
        )
    done = shell("import", "--report", *folders)
    assert done.code == 0
    assert "claude-code: 2 files, 2 sessions, 2 messages, 2 warnings\n" in done.out
    assert "  not messages: 2 progress\n" in done.out
    assert "  unknown: 2 brand-new\n" in done.out
    assert "note: 2 records of an unknown kind: claude-code brand-new" in done.err
    again = shell("import", "--report", "--json", *folders).json
    assert [(one["tool"], one["files"], one["unchanged"], one["nothingNew"]) for one in again["report"]] == [
        ("claude-code", 2, 2, 2)
    ]
    assert "unknown" not in again


def test_unknown_kinds_are_said_without_a_report(shell: Shell, tmp_path: Path) -> None:
    path = lines(
        tmp_path / "s.jsonl",
        claude("u1", "user", parentUuid=None, message={"role": "user", "content": "hi"}),
        {"type": "brand-new", "sessionId": "s"},
    )
    done = shell("import", str(path))
    assert "1 record of an unknown kind: claude-code brand-new" in done.err
    assert "not messages" not in done.out


def test_a_tool_that_has_moved_is_noticed(shell: Shell, tmp_path: Path) -> None:
    """Its file is days newer than all that is in it, or has a newer table. A file of the same days says nothing."""
    said = claude("u1", "user", parentUuid=None, message={"role": "user", "content": "hi"})
    spoken = epoch_ms(said["timestamp"]) / 1000
    path = lines(tmp_path / "s.jsonl", said)
    os.utime(path, (spoken, spoken + 2 * 86_400))
    assert "stale" not in shell("import", "--report", str(path)).out
    os.utime(path, (spoken, spoken + 4 * 86_400))
    done = shell("import", "--report", str(path))
    assert f"  stale: the newest record is of {said['timestamp'][:10]}, but its files were written on" in done.out
    assert "stale" not in shell("import", str(lines(tmp_path / "t.jsonl", said))).out

    tables = Tables(tmp_path / "opencode.db")
    tables.session("session_v2", "ses_a", "New", 1)
    tables.new("ses_a", "msg_1", "user", 1, text="hi")
    database = tables.path
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("CREATE TABLE session_v9 (id TEXT, time_created INTEGER)")
        db.execute("INSERT INTO session_v9 VALUES ('a', 1800000000000)")
    done = shell("import", "--report", str(database))
    assert "  unknown: 1 table session_v9\n" in done.out
    assert "1 record of an unknown kind: opencode table session_v9 (not read, and newer than what was;" in done.err


def test_what_is_there_comes_in_beside_what_is_not(shell: Shell, tmp_path: Path) -> None:
    path = lines(tmp_path / "s", claude("u1", "user", parentUuid=None, message={"role": "user", "content": "hi"}))
    done = shell("import", str(tmp_path / "missing"), str(path))
    assert (done.code, done.out) == (1, "imported 1 session with 1 message\n")
    assert done.err == f"sessiond: {tmp_path}/missing: no such file or folder\n"


def test_counts_for_each_tool_without_a_report(shell: Shell, tmp_path: Path) -> None:
    """Added up over several paths; a dry run says what would come. One tool alone needs no line of its own."""
    folders = []
    for name in ("one", "two"):
        folders.append(str(tmp_path / name))
        message = {"role": "user", "content": "hi"}
        lines(tmp_path / name / f"{name}.jsonl", claude(f"{name}-1", "user", parentUuid=None, message=message))
    (tmp_path / "two" / "talk.json").write_text('[{"role": "user", "content": "hello"}]')
    counts = "claude-code: 2 sessions, 2 messages\nmessages: 1 session, 1 message\n"
    assert shell("import", "--dry-run", *folders).out == f"would import 3 sessions with 3 messages\n{counts}"
    done = shell("import", "--json", *folders).json
    assert done["tools"] == {
        "claude-code": {"sessions": 2, "messages": 2},
        "messages": {"sessions": 1, "messages": 1},
    }
    assert "report" not in done
    assert "tools" not in shell("import", "--json", *folders).json
    for name in ("three", "four"):
        lines(tmp_path / f"{name}.jsonl", claude(f"{name}-1", "user", parentUuid=None, message=message))
        assert shell("import", str(tmp_path / f"{name}.jsonl")).out == "imported 1 session with 1 message\n"
