"""Following the databases of other tools than opencode reads the sessions that changed: next to a service that always reads whole, it
has the same.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.importers import changed_rows, registry, row_tables
from sessiond.importers.changed_rows import RowImporter
from sessiond.importers.record import MessageRecord, RowsRead, Same, SessionStart, open_source
from tests.importers.test_changed_rows import live
from tests.importers.test_database_imports import CRUSH
from tests.importers.test_kilo_import import TABLES as KILO
from tests.importers.test_zed_import import TABLE as ZED
from tests.suite.explore import SEED, seeds

T0 = 1_780_000_000_000
GOOSE = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT, created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT,
  created_timestamp INTEGER, metadata_json TEXT);
"""
CURSOR = """
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
"""


class Tool:
    """A tool with a database. Its clock stands still often, so that no time tells that something was written."""

    name = ""
    file = "sessions.db"
    schema = ""
    says = "", ""
    """The table and the column with what was said."""

    def __init__(self, folder: Path, chance: random.Random | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / self.file
        self.db = sqlite3.connect(self.path)
        self.db.executescript(self.schema)
        self.chance = chance or random.Random(0)
        self.now = T0
        self.sessions: dict[str, list[str]] = {}
        """Each session's messages."""
        self._count = 0

    def run(self, sql: str, *values: Any) -> None:
        with self.db:
            self.db.execute(sql, values)

    def key(self, prefix: str) -> str:
        self._count += 1
        self.now += self.chance.choice([0, 10])
        return f"{prefix}{self._count:03}"

    def begin(self) -> str:
        session = self.key("s")
        self.sessions[session] = []
        self.new_session(session)
        return session

    def say(self, session: str, text: str = "words") -> str:
        message = self.key("m")
        self.sessions[session].append(message)
        self.write(session, message, f"{text} {message}")
        return message

    def end(self, session: str) -> None:
        for message in self.sessions.pop(session):
            self.remove(session, message)
        self.remove_session(session)

    def unsay(self, session: str, message: str) -> None:
        self.sessions[session].remove(message)
        self.remove(session, message)

    def step(self) -> None:
        kind = self.chance.choice(["begin"] + ["say", "again"] * 3 + ["name", "unsay", "end", "vacuum"])
        spoken = [one for one, said in self.sessions.items() if said]
        if not spoken or kind == "begin":
            self.say(self.begin())
            return
        session = self.chance.choice(spoken)
        message = self.chance.choice(self.sessions[session])
        match kind:
            case "say":
                self.say(session)
            case "again":
                self.write(session, message, f"said {self.chance.randrange(10)} {message}")
            case "name":
                self.rename(session, f"Talk {self.chance.randrange(10)}")
            case "unsay":
                self.unsay(session, message)
            case "end":
                self.end(session)
            case _:
                self.db.execute("VACUUM")

    def new_session(self, session: str) -> None:
        raise NotImplementedError

    def write(self, session: str, message: str, text: str) -> None:
        """A new message, or one that is said otherwise."""
        raise NotImplementedError

    def remove(self, session: str, message: str) -> None:
        raise NotImplementedError

    def remove_session(self, session: str) -> None:
        raise NotImplementedError

    def rename(self, session: str, name: str) -> None:
        raise NotImplementedError


class Kilo(Tool):
    name, file, schema, says = "kilo", "kilo.db", KILO, ("part", "data")

    def new_session(self, session: str) -> None:
        row = (session, "p", None, session, "/w", "Talk", "7", 0.0, 0, None, self.now, self.now)
        self.run(f"INSERT INTO session VALUES ({', '.join('?' * 12)})", *row)

    def write(self, session: str, message: str, text: str) -> None:
        data = json.dumps({"type": "text", "text": text})
        if self.db.execute("SELECT 1 FROM part WHERE id = ?", (message,)).fetchone():
            self.run("UPDATE part SET data = ? WHERE id = ?", data, message)
            return
        self.run("INSERT INTO message VALUES (?, ?, ?, ?, ?)", message, session, self.now, self.now, '{"role": "user"}')
        self.run("INSERT INTO part VALUES (?, ?, ?, ?, ?)", message, message, session, self.now, data)

    def remove(self, session: str, message: str) -> None:
        self.run("DELETE FROM part WHERE id = ?", message)
        self.run("DELETE FROM message WHERE id = ?", message)

    def remove_session(self, session: str) -> None:
        self.run("DELETE FROM session WHERE id = ?", session)

    def rename(self, session: str, name: str) -> None:
        self.run("UPDATE session SET title = ? WHERE id = ?", name, session)


class Crush(Tool):
    name, file, schema, says = "crush", "crush.db", CRUSH, ("messages", "parts")

    def new_session(self, session: str) -> None:
        self.run("INSERT INTO sessions VALUES (?, NULL, 'Talk', 0, ?, ?)", session, self.now // 1000, self.now // 1000)

    def write(self, session: str, message: str, text: str) -> None:
        parts, second = json.dumps([{"type": "text", "data": {"text": text}}]), self.now // 1000
        row = (message, session, "user", parts, "m", second, second, None)
        update = "ON CONFLICT (id) DO UPDATE SET parts = excluded.parts, updated_at = excluded.updated_at"
        self.run(f"INSERT INTO messages VALUES ({', '.join('?' * 8)}) {update}", *row)

    def remove(self, session: str, message: str) -> None:
        self.run("DELETE FROM messages WHERE id = ?", message)

    def remove_session(self, session: str) -> None:
        self.run("DELETE FROM sessions WHERE id = ?", session)

    def rename(self, session: str, name: str) -> None:
        self.run("UPDATE sessions SET title = ? WHERE id = ?", name, session)


class Goose(Tool):
    name, file, schema, says = "goose", "sessions.db", GOOSE, ("messages", "content_json")

    def new_session(self, session: str) -> None:
        row = (session, "Talk", "", "/w", "2026-01-01 10:00:00", "2026-01-01 10:00:00")
        self.run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", *row)

    def write(self, session: str, message: str, text: str) -> None:
        content = json.dumps([{"type": "text", "text": text}])
        if self.db.execute("SELECT 1 FROM messages WHERE message_id = ?", (message,)).fetchone():
            self.run("UPDATE messages SET content_json = ? WHERE message_id = ?", content, message)
            return
        columns = "message_id, session_id, role, content_json, created_timestamp"
        self.run(
            f"INSERT INTO messages ({columns}) VALUES (?, ?, 'user', ?, ?)", message, session, content, self.now // 1000
        )

    def remove(self, session: str, message: str) -> None:
        self.run("DELETE FROM messages WHERE message_id = ?", message)

    def remove_session(self, session: str) -> None:
        self.run("DELETE FROM sessions WHERE id = ?", session)

    def rename(self, session: str, name: str) -> None:
        self.run("UPDATE sessions SET name = ? WHERE id = ?", name, session)


class Cursor(Tool):
    """Between its rows are those of something else."""

    name, file, schema, says = "cursor", "state.vscdb", CURSOR, ("cursorDiskKV", "value")

    def put(self, key: str, value: Any) -> None:
        if self.chance.random() < 0.3:
            self.run("INSERT INTO cursorDiskKV VALUES (?, ?)", f"checkpointId:{self.chance.randrange(5)}", "x")
        self.run("INSERT INTO cursorDiskKV VALUES (?, ?)", key, json.dumps(value))

    def new_session(self, session: str) -> None:
        self.rename(session, "Talk")

    def write(self, session: str, message: str, text: str) -> None:
        at = f"2026-01-01T10:00:{self._count % 60:02}.000Z"
        self.put(f"bubbleId:{session}:{message}", {"bubbleId": message, "type": 1, "text": text, "createdAt": at})
        self.rename(session, "Talk")

    def remove(self, session: str, message: str) -> None:
        self.run("DELETE FROM cursorDiskKV WHERE key = ?", f"bubbleId:{session}:{message}")
        if session in self.sessions:
            self.rename(session, "Talk")

    def remove_session(self, session: str) -> None:
        self.run("DELETE FROM cursorDiskKV WHERE key = ?", f"composerData:{session}")

    def rename(self, session: str, name: str) -> None:
        headers = [{"bubbleId": one, "type": 1} for one in self.sessions[session]]
        composer = {"composerId": session, "name": name, "createdAt": T0, "fullConversationHeadersOnly": headers}
        self.put(f"composerData:{session}", composer)


class Zed(Tool):
    """A thread is one row, which has the time when it was last written."""

    name, file, schema, says = "zed", "threads.db", ZED, ("threads", "data")

    def __init__(self, folder: Path, chance: random.Random | None = None) -> None:
        super().__init__(folder, chance)
        self.threads: dict[str, dict[str, Any]] = {}

    def _save(self, session: str) -> None:
        thread = self.threads[session]
        self.now += 1
        at = f"2026-01-01T10:00:00.{self.now - T0:06}Z"
        data = json.dumps({"version": "0.3.0", "title": thread["title"], "messages": list(thread["said"].values())})
        row = (session, thread["title"], at, "json", data.encode(), None, "/w", "2026-01-01T10:00:00Z")
        update = "summary = excluded.summary, updated_at = excluded.updated_at, data = excluded.data"
        query = f"INSERT INTO threads VALUES ({', '.join('?' * 8)}) ON CONFLICT (id) DO UPDATE SET {update}"
        self.run(query, *row)

    def new_session(self, session: str) -> None:
        self.threads[session] = {"title": "Talk", "said": {}}
        self._save(session)

    def write(self, session: str, message: str, text: str) -> None:
        self.threads[session]["said"][message] = {"User": {"id": message, "content": [{"Text": text}]}}
        self._save(session)

    def remove(self, session: str, message: str) -> None:
        del self.threads[session]["said"][message]
        self._save(session)

    def remove_session(self, session: str) -> None:
        del self.threads[session]
        self.run("DELETE FROM threads WHERE id = ?", session)

    def rename(self, session: str, name: str) -> None:
        self.threads[session]["title"] = name
        self._save(session)


TOOLS: list[type[Tool]] = [Kilo, Crush, Goose, Cursor, Zed]


@pytest.fixture(params=TOOLS, ids=lambda made: made.name)
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tool]:
    made: Tool = request.param(tmp_path / "source")
    yield made
    made.db.close()


def read(tool: Tool, before: RowsRead | None = None) -> tuple[list[str], list[str], RowsRead]:
    """Sessions that were read, those that are the same, and what is kept."""
    importer = registry.BY_NAME[tool.name]
    assert isinstance(importer, RowImporter)
    events = list(importer.read_changed(str(tool.path), open_source, before))
    started = [one.source_id for one in events if isinstance(one, SessionStart)]
    [kept] = [one for one in events if isinstance(one, RowsRead)]
    return started, [one.source_id for one in events if isinstance(one, Same)], kept


def test_only_what_changed_is_read(tool: Tool) -> None:
    first, second, third = tool.begin(), tool.begin(), tool.begin()
    for session in (first, second, third):
        tool.say(session)
    spoken = tool.say(second)
    assert read(tool)[:2] == ([first, second, third], [])
    kept = read(tool)[2]
    for _ in range(2):
        *found, kept = read(tool, kept)
        assert found == [[], [first, second, third]]
    changes: list[Callable[[], object]] = [
        lambda: tool.write(second, spoken, "other words"),
        lambda: tool.say(second),
        lambda: tool.unsay(second, spoken),
        lambda: tool.rename(second, "Other"),
    ]
    for change in changes:
        change()
        assert read(tool, kept)[:2] == ([second], [first, third])
        kept = read(tool)[2]
    tool.end(second)
    assert read(tool, kept)[:2] == ([], [first, third])


def test_what_changed_further_up_shows_at_leisure(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what did not change does not, although it was read in between."""
    monkeypatch.setattr(row_tables, "_CONTENT_ROWS", 2)
    first, second = tool.begin(), tool.begin()
    spoken = tool.say(first, "a word")
    for _ in range(3):
        tool.say(second)
    kept = read(tool)[2]
    tool.say(second)
    read_of, _, kept = read(tool, kept)
    assert (read_of, kept.partial) == ([second], True)
    whole = msgspec.structs.replace(kept, tails={})
    assert read(tool, whole)[:2] == ([], [first, second])
    with tool.db:  # as if nothing else told of it
        table, column = tool.says
        old, new = f"a word {spoken}", f"a talk {spoken}"
        tool.db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))
    if tool.name != "zed":  # a thread says when it was written
        assert read(tool, kept)[:2] == ([], [first, second])
        assert read(tool, whole)[:2] == ([first], [second])


def test_the_last_row_may_be_another_one_each_time(tmp_path: Path) -> None:
    """Cursor rewrites a bubble by deleting its row and inserting a new one. That alone must not cause a full scan."""
    tool = Cursor(tmp_path)
    first, second = tool.begin(), tool.begin()
    tool.say(first)
    tool.say(second)
    kept = read(tool)[2]
    for name in ("Klat", "Talc"):
        tool.rename(second, name)
        read_of, same_as, kept = read(tool, kept)
        assert (read_of, same_as, kept.partial) == ([second], [first], True)
    tool.db.close()


def test_a_table_without_row_numbers_is_read_whole(tmp_path: Path) -> None:
    tool = Kilo(tmp_path)
    tool.say(tool.begin())
    tool.db.executescript("""
        CREATE TABLE other (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT) WITHOUT ROWID;
        INSERT INTO other SELECT id, message_id, session_id, data FROM part;
        DROP TABLE part; ALTER TABLE other RENAME TO part;
    """)
    importer = registry.BY_NAME[tool.name]
    assert isinstance(importer, RowImporter)
    events = list(importer.read_changed(str(tool.path), open_source, None))
    assert not any(isinstance(one, RowsRead) for one in events)
    assert any(isinstance(one, MessageRecord) for one in events)
    tool.db.close()


@pytest.mark.parametrize("seed", seeds(few=1, usual=6))
@pytest.mark.parametrize("tail", [256, 2])
@pytest.mark.parametrize("kind", TOOLS, ids=lambda made: made.name)
async def test_random_lives(
    tmp_path: Path, kind: type[Tool], seed: int, tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With short tails, and all rows looked at whenever the tool pauses."""
    monkeypatch.setattr(row_tables, "_CONTENT_ROWS", tail)
    monkeypatch.setattr(changed_rows, "_AT_REST_S", 0.0)
    monkeypatch.setattr(changed_rows, "_LEISURE", 0)
    chance = random.Random(f"{kind.name} {seed} {SEED}")
    tool = kind(tmp_path / "source", chance)
    await live(tmp_path, tool, tool.name, chance, rests=True)
