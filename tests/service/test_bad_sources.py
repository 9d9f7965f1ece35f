"""Sources as they really are: damaged, odd, hostile. What can be read is imported, the rest is reported, and the sources are not changed."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.session import content_equal
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

Texts = dict[str, list[str]]


def turn(number: int, session: str, **more: Any) -> dict[str, Any]:
    record = {
        "type": "user", "uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": session, "cwd": "/w", "isSidechain": False,
        "timestamp": f"2026-01-11T14:30:{number:02d}.000Z", "message": {"role": "user", "content": f"text {number}"},
    }  # fmt: skip
    return {**record, **more}


def lines(path: Path, *records: dict[str, Any] | bytes) -> Path:
    encoded = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    path.write_bytes(b"\n".join(encoded) + b"\n")
    return path


async def brought(tmp_path: Path, source: Path) -> tuple[Texts, list[tuple[str, int | None]]]:
    """The texts of each session that came in, in a store read again, and where the warnings point (name, line). The source
    is the same before and after, in every byte and time.
    """
    before = sources(source)
    house = House(RealFileSystem(), str(tmp_path / "home"))
    store = (await house.open()).store
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    told = await service.import_(None, str(source), dry_run=True)
    result = await service.import_(None, str(source))
    counts = [(info["sessionId"], info["messageCount"]) for info in result["sessions"]]
    assert sorted((info["sessionId"], info["messageCount"]) for info in told["sessions"]) == sorted(counts)
    assert (await service.import_(None, str(source)))["sessions"] == []
    await service.close()
    assert sources(source) == before
    again = House(RealFileSystem(), str(tmp_path / "home"))
    reread = await again.open()
    found: Texts = {}
    for session_id, count in counts:
        loaded = await reread.load(session_id)
        assert loaded.warnings == []
        assert len(loaded.session) == count
        assert content_equal(loaded.session, loaded.session.snapshot())
        found[session_id] = [message.text() for message in loaded.session.messages()]
    return found, [(Path(w["path"]).name, w["line"]) for w in result["warnings"]]


def sources(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            stat = path.stat()
            found[str(path)] = (stat.st_mtime_ns, stat.st_ino, path.read_bytes())
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


async def test_broken_lines_cost_themselves(tmp_path: Path, source: Path) -> None:
    """Cut off, NULs, not JSON, not an object: each is reported with file and line, the lines around it are imported."""
    lines(
        source / "a.jsonl", turn(1, "a"), b'{"type": "user", "uu', turn(2, "a"), b"\0" * 100, b"[1, 2]", b"", turn(3, "a"),
        json.dumps(turn(4, "a")).encode()[:-30],
    )  # fmt: skip
    with (source / "a.jsonl").open("ab") as file:
        file.write(b"\0" * 4096)
    found, warnings = await brought(tmp_path, source)
    assert found == {"claude-code-a": ["text 1", "text 2", "text 3"]}
    assert warnings == [("a.jsonl", 2), ("a.jsonl", 4), ("a.jsonl", 5), ("a.jsonl", 8), ("a.jsonl", 9)]


async def test_encodings_are_recoded_or_replaced(tmp_path: Path, source: Path) -> None:
    """UTF-16, a byte order mark, Latin-1 in between, lone surrogates, control characters."""
    text = "\n".join(json.dumps(turn(n, "a"), ensure_ascii=False) for n in (1, 2)) + "\n"
    (source / "a.jsonl").write_bytes(text.encode("utf-16"))
    (source / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + text.replace('"a"', '"b"').encode())
    odd = json.dumps(turn(1, "c", message={"role": "user", "content": "caf\u00e9"}), ensure_ascii=False).encode(
        "latin-1"
    )
    lone = json.dumps(turn(2, "c")).replace("text 2", "\\ud800 lone").encode()
    lines(source / "c.jsonl", odd, lone, turn(3, "c", message={"role": "user", "content": "\x1b[31m\u202e\x00"}))
    found, warnings = await brought(tmp_path, source)
    assert found["claude-code-a"] == found["claude-code-b"] == ["text 1", "text 2"]
    assert found["claude-code-c"] == ["caf\ufffd", "\ufffd lone", "\x1b[31m\u202e\x00"]
    assert warnings == [("c.jsonl", 1), ("c.jsonl", 2)]


async def test_trees_with_holes_circles_and_twins(tmp_path: Path, source: Path) -> None:
    """Parents that are not there or lead in a circle, the same id twice with the same or other content: all words are
    kept, an exact repetition once."""
    lines(
        source / "a.jsonl", turn(1, "a", parentUuid="nowhere"), turn(2, "a", parentUuid="u3"), turn(3, "a", parentUuid="u2"),
        turn(4, "a", parentUuid="u4"), turn(1, "a", parentUuid="nowhere"), turn(2, "a", message={"role": "user", "content": "other"}),
    )  # fmt: skip
    found, warnings = await brought(tmp_path, source)
    assert found == {"claude-code-a": ["text 1", "text 2", "text 3", "text 4", "other"]}
    assert warnings == [("a.jsonl", 5)]


async def test_bombs_and_wrong_clocks(tmp_path: Path, source: Path) -> None:
    """Endless nesting, endless numbers, invalid times or times of other ages: no harm, and the text is imported."""
    deep = json.dumps(turn(2, "a")).encode()[:-1] + b', "toolUseResult": ' + b"[" * 500 + b"]" * 500 + b"}"
    bottomless = b'{"type": "user", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    large = json.dumps(turn(3, "a")).encode()[:-1] + b', "n": 1' + b"0" * 400 + b', "m": 1e999}'
    clocks = [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
        "yesterday",
        -(10**18),
        10**30,
        None,
        "2026-02-30T00:00:00Z",
    ]
    records = [turn(n, "a", timestamp=clock) for n, clock in enumerate(clocks, 10)]
    lines(source / "a.jsonl", turn(1, "a"), deep, bottomless, large, *records)
    lines(source / "deep.json", b"[" * 100_000)
    found, warnings = await brought(tmp_path, source)
    assert found["claude-code-a"] == [f"text {n}" for n in (1, 2, 3, *range(10, 17))]
    assert ("a.jsonl", 3) in warnings
    assert {name for name, _ in warnings} <= {"a.jsonl", "deep.json"}


async def test_odd_names_and_things_that_are_no_files(tmp_path: Path, source: Path) -> None:
    """Folders and pipes with a file's name, links in a circle or to nowhere, names that are not ids: nothing waits and
    nothing is read twice."""
    (source / "folder.jsonl").mkdir()
    os.mkfifo(source / "pipe.jsonl")
    (source / "round").symlink_to(source)
    (source / "nowhere.jsonl").symlink_to(source / "not-there")
    (source / "empty.jsonl").write_bytes(b"")
    odd = source / "..\u202e ; rm -rf \u00e9.jsonl"
    lines(odd, turn(1, odd.stem))
    found, warnings = await brought(tmp_path, source)
    assert list(found.values()) == [["text 1"]]
    assert warnings == []


async def test_databases_of_others(tmp_path: Path, source: Path) -> None:
    """One that its owner has locked is read without a trace. One of an unknown schema, or cut off,
    is told if it is called as a tool's is; of a stranger's nobody expected anything.
    """

    def goose(path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None)
        db.executescript(
            "create table sessions (id text primary key, name text, working_dir text, created_at text, updated_at text);"
            "create table messages (id integer primary key, message_id text, session_id text, role text, content_json text,"
            " created_timestamp integer, metadata_json text);"
            "insert into sessions values ('s', 'A name', '/w', '2026-01-11 14:30:22', '2026-01-11 14:30:22')"
        )
        content = json.dumps([{"type": "text", "text": f"from {path.name}"}])
        db.execute("insert into messages values (1, 'm1', 's', 'user', ?, 1768141822, null)", (content,))
        return db

    (source / "locked").mkdir()
    locked = goose(source / "locked" / "sessions.db")
    locked.execute("begin exclusive")
    strangers = ("crush.db", "logs.db", "opencode.db", "sessions.db", "other.db")
    for name in strangers:
        with closing(sqlite3.connect(source / name)) as db:
            db.executescript("create table t (x); insert into t values (1)")
    (source / "cut").mkdir()
    for name in ("crush.db", "cut.db"):
        (source / "cut" / name).write_bytes((source / "other.db").read_bytes()[:3000])
    (source / "text").mkdir()
    (source / "text" / "opencode.db").write_text("no database\n")
    found, warnings = await brought(tmp_path, source)
    locked.execute("rollback")
    locked.close()
    assert found == {"goose-s": ["from sessions.db"]}
    names = [*strangers[:4], "crush.db", "opencode.db"]
    assert sorted(warnings) == sorted((name, None) for name in names)
