"""Following opencode's database reads the sessions that changed: next to a service that always reads whole, it has the same."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from sessiond.errors import TooLarge
from sessiond.importers import changed_rows, opencode, row_tables
from sessiond.importers.changed_rows import is_due
from sessiond.importers.opencode import OpenCode
from sessiond.importers.record import (
    Continued,
    Event,
    MessageRecord,
    RowsRead,
    Same,
    SessionStart,
    Unknown,
    open_source,
)
from sessiond.limits import Limits
from sessiond.service.grown_session import Grown
from sessiond.service.sources import Sources
from tests.fakes.peer import FakePeer
from tests.importers.opencode_tables import SCHEMA
from tests.importers.test_reads_on import same
from tests.service.test_intake import SHORTENED, Served
from tests.suite.explore import SEED, seeds

NEW = """
CREATE TABLE session_v2 (id TEXT PRIMARY KEY, parent_id TEXT, fork_session_id TEXT, title TEXT, directory TEXT,
  time_created INTEGER, time_updated INTEGER);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER,
  time_updated INTEGER, data TEXT);
"""
T0 = 1_780_000_000_000
"""Long ago: the times of its rows tell their versions."""


class Tool:
    """opencode, with some sessions. `now`: its clock, in milliseconds."""

    def __init__(self, path: Path, chance: random.Random | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript(SCHEMA)
        self.now = T0
        self.chance = chance or random.Random(0)
        self.busy = 0.0
        self._count = 0
        self._new = False

    def run(self, sql: str, *values: Any) -> None:
        with self.db:
            self.db.execute(sql, values)

    def tick(self) -> int:
        """Some of what it writes it writes just now."""
        if self.chance.random() < self.busy:
            return int(time.time() * 1000)
        self.now += 10
        return self.now

    def ids(self, table: str) -> list[str]:
        return [row[0] for row in self.db.execute(f"SELECT id FROM {table} ORDER BY id")]

    def session(self) -> str:
        self._count += 1
        key = f"ses_{self._count:03}"
        self.run("INSERT INTO session VALUES (?, 'p', NULL, 'Talk', '/w', ?, ?)", key, self.tick(), self.now)
        return key

    def message(self, session_id: str, text: str = "words") -> str:
        self._count += 1
        key, at = f"{self._count:03}", self.tick()
        role = json.dumps({"role": "user"})
        self.run("INSERT INTO message VALUES (?, ?, ?, ?, ?)", f"msg_{key}", session_id, at, at, role)
        part = json.dumps({"type": "text", "text": f"{text} {key}"})
        self.run("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", f"prt_{key}", f"msg_{key}", session_id, at, at, part)
        return f"prt_{key}"

    def rewrite(self, part: str, text: str) -> None:
        data = json.dumps({"type": "text", "text": text})
        self.run("UPDATE part SET data = ?, time_updated = ? WHERE id = ?", data, self.tick(), part)

    def migrate(self) -> None:
        if not self._new:
            self._new = True
            self.db.executescript(NEW)

    def fork(self, origin: str) -> None:
        self.migrate()
        self._count += 1
        key = f"ses_{self._count:03}"
        self.run("INSERT INTO session_v2 VALUES (?, NULL, ?, 'Fork', '/w', ?, ?)", key, origin, self.tick(), self.now)
        self.said(key)

    def said(self, session_id: str) -> None:
        self.migrate()
        self._count += 1
        seq = self.db.execute("SELECT count(*) FROM session_message WHERE session_id = ?", (session_id,)).fetchone()[0]
        data = json.dumps({"text": f"new words {self._count}", "time": {"created": self.tick()}})
        row = (f"evt_{self._count}", session_id, "user", seq, self.now, self.now, data)
        self.run("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def step(self) -> None:
        """Something that opencode does."""
        sessions, parts = self.ids("session"), self.ids("part")
        kinds = (
            ["session"]
            + ["message", "rewrite", "said"] * 3
            + ["title", "delete part", "delete session", "fork", "vacuum"]
        )
        kind = self.chance.choice(kinds)
        if not sessions or not parts or kind == "session":
            self.message(self.session())
            return
        session, part = self.chance.choice(sessions), self.chance.choice(parts)
        match kind:
            case "message":
                self.message(session)
            case "rewrite":
                self.rewrite(part, f"rewritten {self.now}")
            case "said":
                self.said(session)
            case "title":
                title = f"Talk {self.tick()}"
                self.run("UPDATE session SET title = ?, time_updated = ? WHERE id = ?", title, self.now, session)
            case "delete part":
                self.run("DELETE FROM part WHERE id = ?", part)
            case "delete session":
                for table in ("part", "message"):
                    self.run(f"DELETE FROM {table} WHERE session_id = ?", session)
                self.run("DELETE FROM session WHERE id = ?", session)
            case "fork":
                self.fork(session)
            case _:
                self.db.execute("VACUUM")


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    made = Tool(tmp_path / "source" / "opencode.db")
    with closing(made.db):
        yield made


class Following:
    """A service that follows one database. `whole`: it always reads all of it."""

    def __init__(
        self, home: Path, tool: str = "opencode", *, whole: bool = False, limits: Limits | None = None
    ) -> None:
        self.served = Served(home, str(home.parent / f"{home.name}.db"), limits)
        self._tool = tool
        self._whole = whole

    async def start(self) -> Following:
        await self.served.start()
        service = self.served.service
        self.sources = await service.transfer.followed(service.stores["default"])
        self.kept: Sources = service.transfer._sources["default"]
        return self

    async def bring(self, path: Path) -> list[str]:
        if self._whole:
            self.kept.rows.clear()
        brought = await self.sources.bring(str(path), self._tool)
        return [info.session_id for info in brought.sessions]


def read(tool: Tool, before: RowsRead | None = None) -> tuple[list[str], list[str], RowsRead]:
    """Sessions that were read, those that are the same, and what is kept."""
    events = list(OpenCode().read_changed(str(tool.path), open_source, before))
    read = [one.source_id for one in events if isinstance(one, SessionStart)]
    [kept] = [one for one in events if isinstance(one, RowsRead)]
    return read, [one.source_id for one in events if isinstance(one, Same)], kept


def test_only_what_changed_is_read(tool: Tool) -> None:
    first, second = tool.session(), tool.session()
    tool.message(first)
    part = tool.message(second)
    assert read(tool)[:2] == ([first, second], [])
    kept = read(tool)[2]
    for _ in range(2):
        *found, kept = read(tool, kept)
        assert found == [[], [first, second]]
    tool.rewrite(part, "other words")
    assert read(tool, kept)[:2] == ([second], [first])
    tool.run("DELETE FROM part WHERE id = ?", part)
    assert read(tool, kept)[:2] == ([second], [first])


@pytest.fixture
def short_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last two rows of a table are looked at each time."""
    monkeypatch.setattr(row_tables, "_TAIL_ROWS", 2)


@pytest.mark.usefixtures("short_tails")
def test_only_the_ends_of_the_tables_are_looked_at(tool: Tool) -> None:
    """Until it is due, what was changed further up does not show, unless the row of its session says so."""
    first, second = tool.session(), tool.session()
    part = tool.message(first)
    for _ in range(3):
        tool.message(second)
    kept = read(tool)[2]
    tool.message(second)
    tool.rewrite(part, "other words")
    read_of, same_as, kept = read(tool, kept)
    assert (read_of, same_as, kept.partial) == ([second], [first], True)
    assert not is_due(kept, kept.at_s + 1)
    assert is_due(kept, kept.at_s + 3600)
    assert not is_due(msgspec.structs.replace(kept, whole_s=60.0), kept.at_s + 3600)
    assert read(tool, msgspec.structs.replace(kept, tails={}))[:2] == ([first], [second])
    tool.run("UPDATE session SET title = 'Other' WHERE id = ?", first)
    assert read(tool, kept)[:2] == ([first], [second])


@pytest.mark.usefixtures("short_tails")
def test_rows_that_have_other_numbers_are_all_looked_at(tool: Tool) -> None:
    """A VACUUM may number them anew. A new row then has a number that another one had."""
    first, second, third = tool.session(), tool.session(), tool.session()
    tool.message(first)
    parts = [tool.message(second) for _ in range(4)]
    tool.message(third)
    kept = read(tool)[2]
    for part in parts:
        tool.run("DELETE FROM part WHERE id = ?", part)
    tool.run("UPDATE part SET rowid = 2 WHERE session_id = ?", third)
    tool.run("INSERT INTO part SELECT 'prt_new', message_id, session_id, ?, ?, data FROM part WHERE rowid = 1", T0, T0)
    assert read(tool, kept)[0] == [first, second, third]


@pytest.mark.usefixtures("short_tails")
def test_rows_in_the_place_of_those_that_were_looked_at_are_others(tool: Tool) -> None:
    first, second = tool.session(), tool.session()
    tool.message(first)
    parts = [tool.message(second) for _ in range(3)]
    kept = read(tool)[2]
    for part in parts:
        tool.run("DELETE FROM part WHERE id = ?", part)
    again = "INSERT INTO part SELECT ?, message_id, ?, ?, ?, data FROM part WHERE rowid = 1"
    for key, session in (("prt_x", first), ("prt_y", second), ("prt_z", second)):
        tool.run(again, key, session, T0, T0)
    assert read(tool, kept)[0] == [first, second]


@pytest.mark.usefixtures("short_tails")
async def test_what_changed_further_up_comes_in_at_leisure(
    tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = await Following(tmp_path / "home").start()
    first, second = tool.session(), tool.session()
    part = tool.message(first)
    for _ in range(3):
        tool.message(second)
    [wire_id, _] = sorted(await following.bring(tool.path))
    tool.rewrite(part, "other words")
    tool.message(second)
    await following.bring(tool.path)
    assert await following.sources.compare(1.0) == []
    monkeypatch.setattr(changed_rows, "_AT_REST_S", 0.0)
    monkeypatch.setattr(changed_rows, "_LEISURE", 0)
    assert await following.sources.compare(1.0) == [str(tool.path)]
    assert await following.sources.behind([str(tool.path)])
    assert await following.bring(tool.path) == [wire_id]
    assert "other words" in (await following.served.texts(wire_id))[-1]
    assert await following.sources.compare(1.0) == []
    await following.served.close()


def test_what_was_written_just_now_is_read_again(tool: Tool) -> None:
    """The tool may write the same row in the same millisecond, after it was read."""
    tool.now = int(time.time() * 1000)
    session = tool.session()
    part = tool.message(session)
    kept = read(tool)[2]
    tool.now -= 10
    tool.rewrite(part, "in the same millisecond")
    assert read(tool, kept)[:2] == ([session], [])


def test_another_file_and_another_schema_are_read_whole(tool: Tool) -> None:
    session = tool.session()
    tool.message(session)
    kept = read(tool)[2]
    tool.db.execute("ALTER TABLE part ADD COLUMN more TEXT")
    assert read(tool, kept)[0] == [session]
    kept = read(tool)[2]
    tool.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    copy = tool.path.with_name("copy")
    copy.write_bytes(tool.path.read_bytes())
    tool.db.close()
    copy.replace(tool.path)
    assert read(tool, kept)[0] == [session]


def test_a_fork_is_read_each_time(tool: Tool) -> None:
    """What its messages cost is counted with those of the session that it came from, which may change."""
    session = tool.session()
    tool.message(session)
    tool.fork(session)
    kept = read(tool)[2]
    assert read(tool, kept)[1] == [session]


def test_what_depends_on_another_file_is_read_each_time(tool: Tool) -> None:
    """An output that was too long for its row."""
    session, other = tool.session(), tool.session()
    tool.message(session)
    state = {"status": "completed", "output": "...", "metadata": {"outputPath": "/missing/tool_1"}}
    data = json.dumps({"type": "tool", "tool": "bash", "callID": "c", "state": state})
    tool.run("UPDATE part SET data = ?", data)
    kept = read(tool)[2]
    assert read(tool, kept)[:2] == ([session], [other])


def test_a_table_of_old_notes_is_none_of_tomorrow(tool: Tool) -> None:
    """It is older than the newest message, although that was not read this time."""
    tool.message(tool.session())
    tool.run("CREATE TABLE session_note (session_id TEXT, time_created INTEGER)")
    tool.run("INSERT INTO session_note VALUES ('x', ?)", T0)
    kept = read(tool)[2]
    for _ in range(2):
        events = list(OpenCode().read_changed(str(tool.path), open_source, kept))
        assert not any(isinstance(one, Unknown) for one in events)
        [kept] = [one for one in events if isinstance(one, RowsRead)]


async def test_a_large_database_is_read_at_once(tmp_path: Path, tool: Tool) -> None:
    """It does not wait for the readers of large files, once only what has changed is read."""
    following = await Following(tmp_path / "home").start()
    tool.message(tool.session())
    assert not following.sources.goes_on(str(tool.path))
    await following.bring(tool.path)
    assert following.sources.goes_on(str(tool.path))
    await following.served.close()


async def test_what_did_not_come_in_is_not_kept(tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that could not be stored is tried again with the next write, wherever that is."""
    following = await Following(tmp_path / "home").start()
    first, second = tool.session(), tool.session()
    tool.message(first)
    tool.message(second)

    async def refused(*_: object) -> None:
        raise TooLarge("no")

    assert len(await following.bring(tool.path)) == 2
    tool.message(first)
    with monkeypatch.context() as patched:
        patched.setattr(Grown, "finish", refused)
        assert await following.bring(tool.path) == []
    tool.message(second)
    assert len(await following.bring(tool.path)) == 2
    await following.served.close()


def test_a_database_of_an_older_opencode_is_read_whole(tool: Tool) -> None:
    session = tool.session()
    tool.message(session)
    tool.db.execute("ALTER TABLE part DROP COLUMN time_updated")
    events = list(OpenCode().read_changed(str(tool.path), open_source, None))
    assert any(isinstance(one, MessageRecord) for one in events)
    assert not any(isinstance(one, RowsRead) for one in events)


async def test_a_session_that_was_deleted_here_is_caught_up_when_it_is_back(tmp_path: Path, tool: Tool) -> None:
    """Its source went on while it was in the trash."""
    following = await Following(tmp_path / "home").start()
    other, session = tool.session(), tool.session()
    tool.message(other)
    tool.message(session, "first")
    [_, wire_id] = sorted(await following.bring(tool.path))
    await following.served.service.delete(wire_id)
    tool.message(session, "second")
    assert await following.bring(tool.path) == []
    await following.served.service.restore(None, wire_id)
    tool.message(other)
    await following.bring(tool.path)
    texts = await following.served.texts(wire_id)
    assert [one.split()[0] for one in texts] == ["first", "second"]
    await following.served.close()


async def test_it_counts_as_read_although_nothing_in_it_changed(tmp_path: Path, tool: Tool) -> None:
    following = await Following(tmp_path / "home").start()
    tool.message(tool.session())
    await following.bring(tool.path)
    tool.run("CREATE TABLE IF NOT EXISTS other (id TEXT)")
    await following.bring(tool.path)
    tool.run("INSERT INTO other VALUES ('x')")
    assert await following.sources.behind([str(tool.path)])
    assert await following.bring(tool.path) == []
    assert not await following.sources.behind([str(tool.path)])
    await following.served.close()


async def test_a_session_in_which_nothing_was_said_is_not_read_again(tmp_path: Path, tool: Tool) -> None:
    """It comes in when something is."""
    following = await Following(tmp_path / "home").start()
    first, second = tool.session(), tool.session()
    tool.message(first)
    await following.bring(tool.path)
    tool.message(first)
    await following.bring(tool.path)
    assert read(tool, following.kept.rows[str(tool.path)])[:2] == ([], [first, second])
    tool.message(second)
    assert await following.bring(tool.path) == ["opencode-ses_002"]
    await following.served.close()


class Living(Protocol):
    """A tool that does something at each step."""

    path: Path
    db: sqlite3.Connection

    def step(self) -> None: ...


async def live(folder: Path, tool: Living, name: str, chance: random.Random, *, rests: bool) -> None:
    """A service that follows a tool has what one that always reads whole has, while people delete sessions. `rests`: whether the tool
    pauses between its steps, so that all rows are looked at.
    """
    following = await Following(folder / "following", name).start()
    whole = await Following(folder / "whole", name, whole=True).start()
    for _ in range(30):
        for _ in range(chance.choice([1, 1, 1, 3])):
            tool.step()
        told = {*await following.bring(tool.path)}
        for path in await following.sources.compare(1.0) if rests else []:
            told |= {*await following.bring(Path(path))}
        assert told == {*await whole.bring(tool.path)}
        wire_ids = [info["sessionId"] for info in (await following.served.service.list())["sessions"]]
        if wire_ids and chance.random() < 0.15:
            for one in (following, whole):
                await one.served.service.delete(min(wire_ids))
    await same(following, whole)  # type: ignore[arg-type]
    assert following.kept.rows
    for one in (following, whole):
        await one.served.close()
    tool.db.close()


@pytest.mark.parametrize("seed", seeds(few=3, usual=8))
@pytest.mark.parametrize(("tail", "latest"), [(256, 16), (256, 2), (2, 2), (2, 1)])
async def test_random_lives(tmp_path: Path, seed: int, tail: int, latest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short tails, all rows looked at whenever the tool pauses, and sessions read on near their end."""
    monkeypatch.setattr(row_tables, "_TAIL_ROWS", tail)
    monkeypatch.setattr(opencode, "_LATEST", latest)
    monkeypatch.setattr(changed_rows, "_AT_REST_S", 0.0)
    monkeypatch.setattr(changed_rows, "_LEISURE", 0)
    chance = random.Random(f"{seed} {SEED}")
    tool = Tool(tmp_path / "source" / "opencode.db", chance)
    tool.busy = 0.1
    await live(tmp_path, tool, "opencode", chance, rests=tail == 2)


# Sessions that are read on


def events_of(tool: Tool, before: RowsRead | None) -> tuple[list[Event], RowsRead]:
    """What is read, and what is kept, as if it had come in."""
    events = list(OpenCode().read_changed(str(tool.path), open_source, before))
    [kept] = [one for one in events if isinstance(one, RowsRead)]
    for end in kept.ends.values():
        end.last = end.last or {}
    return events, kept


def spoken(events: list[Event]) -> tuple[list[str], list[str]]:
    """How the sessions were read, and what was said in them."""
    kinds = {SessionStart: "whole", Continued: "on"}
    read = [kinds[type(one)] for one in events if type(one) in kinds]
    return read, [one.message["content"].rpartition(" ")[2] for one in events if isinstance(one, MessageRecord)]


@pytest.fixture
def short_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last two messages are read again."""
    monkeypatch.setattr(opencode, "_LATEST", 2)


@pytest.fixture
def going_on(tool: Tool, short_ends: None) -> tuple[Tool, str, list[str], RowsRead]:
    """A tool, a session that was read while it changed, its parts, and what was kept of it."""
    del short_ends
    session = tool.session()
    parts = [tool.message(session) for _ in range(6)]
    kept = read(tool)[2]
    parts.append(tool.message(session))
    events, kept = events_of(tool, kept)
    assert spoken(events) == (["whole"], ["002", "003", "004", "005", "006", "007", "008"])
    return tool, session, parts, kept


Going = tuple[Tool, str, list[str], RowsRead]


def test_a_session_that_goes_on_is_read_on(going_on: Going) -> None:
    """From before its last messages: a tool still writes to some of them."""
    tool, session, parts, kept = going_on
    for number in range(9, 12):
        parts.append(tool.message(session))
        events, kept = events_of(tool, kept)
        assert spoken(events) == (["on"], [f"{one:03}" for one in range(number - 2, number + 1)])
    tool.rewrite(parts[-1], "other words")
    assert spoken(events_of(tool, kept)[0]) == (["on"], ["010", "words"])
    tool.run("UPDATE session SET title = 'Other' WHERE id = ?", session)
    [start] = [one for one in events_of(tool, kept)[0] if isinstance(one, Continued)]
    assert start.info["name"] == "Other"


def test_it_is_read_on_as_often_as_one_likes(going_on: Going) -> None:
    """The same state gives the same events: a reading may have to begin again."""
    tool, session, _, kept = going_on
    for _ in range(3):
        tool.message(session)
        assert spoken(events_of(tool, kept)[0]) == spoken(events_of(tool, kept)[0])


@pytest.mark.parametrize("change", ["further up", "taken away", "earlier", "time", "both"])
def test_it_is_read_whole_if_anything_else_changed(going_on: Going, change: str) -> None:
    tool, session, parts, kept = going_on
    tool.message(session)
    match change:
        case "further up":
            tool.rewrite(parts[1], "other words")
        case "taken away":
            tool.run("DELETE FROM part WHERE id = ?", parts[1])
        case "earlier":
            tool.run("UPDATE message SET time_created = 1 WHERE rowid = (SELECT max(rowid) FROM message)")
        case "time":
            tool.run("UPDATE session SET time_created = time_created + 1")
        case _:
            kept = events_of(tool, None)[1]  # with both generations of tables
            tool.migrate()
            tool.message(session)
            kept = events_of(tool, events_of(tool, kept)[1])[1]
            tool.message(session)
            kept = events_of(tool, kept)[1]
            tool.said(session)
    assert spoken(events_of(tool, kept)[0])[0] == ["whole"]


@pytest.mark.usefixtures("short_tails")
def test_reading_on_does_not_hide_what_changed_further_up(going_on: Going) -> None:
    """It shows when all rows are looked at."""
    tool, session, parts, kept = going_on
    tool.message(session)
    kept = events_of(tool, kept)[1]
    tool.rewrite(parts[1], "other words")
    tool.message(session)
    events, kept = events_of(tool, kept)
    assert spoken(events)[0] == ["on"]
    tool.message(session)
    kept = events_of(tool, kept)[1]
    events, kept = events_of(tool, msgspec.structs.replace(kept, tails={}))
    assert spoken(events)[0] == ["whole"]
    assert spoken(events_of(tool, msgspec.structs.replace(kept, tails={}))[0])[0] == []


def test_what_was_written_just_now_is_read_again_when_it_is_read_on(going_on: Going) -> None:
    """However much that is: the tool may write the same row in the same millisecond, after it was read."""
    tool, session, _, kept = going_on
    before, tool.now = tool.now, int(time.time() * 1000)
    recent = [tool.message(session) for _ in range(5)]
    kept = events_of(tool, kept)[1]
    tool.now = before
    for part in recent:
        tool.run("UPDATE part SET data = replace(data, 'words', 'other words') WHERE id = ?", part)
    assert len([one for one in events_of(tool, kept)[0] if isinstance(one, MessageRecord)]) >= len(recent)


@pytest.mark.usefixtures("short_ends")
async def test_a_message_that_is_here_already_is_no_reason_to_lose_it(tmp_path: Path, tool: Tool) -> None:
    """Somebody said something here under an id that the tool uses next: its database is read whole, as an import would."""
    following = await Following(tmp_path / "home").start()
    whole = await Following(tmp_path / "whole", whole=True).start()
    session = tool.session()
    for _ in range(6):
        tool.message(session)
        for one in (following, whole):
            await one.bring(tool.path)
    said = {"id": "msg_014", "role": "user", "content": "mine", "timestamp": "2026-01-01T00:00:00.000Z"}
    for one in (following, whole):
        await one.served.service.append(FakePeer(), "opencode-ses_001", [said])
    for _ in range(8):
        tool.message(session)
        for one in (following, whole):
            await one.bring(tool.path)
    await same(following, whole)  # type: ignore[arg-type]
    for one in (following, whole):
        await one.served.close()


@pytest.mark.usefixtures("short_ends")
async def test_a_session_whose_file_is_damaged_costs_itself(tmp_path: Path, tool: Tool) -> None:
    following = await Following(tmp_path / "home").start()
    first, second = tool.session(), tool.session()
    for _ in range(4):
        tool.message(first)
        tool.message(second)
        await following.bring(tool.path)
    await following.served.close()
    [path] = (tmp_path / "home").rglob("opencode-ses_001.jsonl")
    whole = path.read_bytes()
    path.write_bytes(b"\0" * len(whole))
    kept = following.kept.rows
    await following.start()
    following.kept.rows = kept
    tool.message(first)
    tool.message(second)
    assert await following.bring(tool.path) == ["opencode-ses_002"]
    await following.served.close()


@pytest.mark.usefixtures("short_ends")
async def test_a_session_that_is_back_from_the_trash_is_not_read_on(tmp_path: Path, tool: Tool) -> None:
    """Its tool went on meanwhile."""
    following = await Following(tmp_path / "home").start()
    session, wire_id = tool.session(), "opencode-ses_001"
    for _ in range(6):
        tool.message(session)
        await following.bring(tool.path)
    await following.served.service.delete(wire_id)
    for _ in range(6):
        tool.message(session)
        await following.bring(tool.path)
    await following.served.service.restore(None, wire_id)
    tool.message(session)
    await following.bring(tool.path)
    assert len(await following.served.texts(wire_id)) == 13
    await following.served.close()


class Talking(Tool):
    """Mostly it goes on with a few long sessions, in one generation of its tables. `new`: in the newer one."""

    def __init__(self, path: Path, chance: random.Random, *, new: bool) -> None:
        super().__init__(path, chance)
        self.busy = chance.choice([0.0, 0.0, 0.1])
        self._in_new = new
        if new:
            self.migrate()

    def begin(self) -> str:
        if not self._in_new:
            return self.session()
        self._count += 1
        key = f"ses_{self._count:03}"
        row = (key, None, None, "Talk", "/w", self.tick(), self.now)
        self.run("INSERT INTO session_v2 VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
        return key

    def speak(self, session: str) -> None:
        for _ in range(self.chance.choice([1, 1, 1, 4])):
            self.said(session) if self._in_new else self.message(session)

    def step(self) -> None:
        table, rows = ("session_v2", "session_message") if self._in_new else ("session", "part")
        sessions = self.ids(table)
        if len(sessions) < 2 or self.chance.random() < 0.03:
            self.speak(self.begin())
            return
        session = self.chance.choice(sessions[-3:])
        ids = [
            row[0] for row in self.db.execute(f"SELECT id FROM {rows} WHERE session_id = ? ORDER BY rowid", (session,))
        ]
        kind = self.chance.choice(
            ["speak"] * 8 + ["again"] * 4 + ["further up", "title", "take away", "earlier", "vacuum"]
        )
        if not ids or kind == "speak":
            self.speak(session)
        elif kind == "again":
            self.say_again(rows, self.chance.choice(ids[-3:]))
        elif kind == "further up":
            self.say_again(rows, self.chance.choice(ids))
        elif kind == "title":
            title = f"Talk {self.tick()}"
            self.run(f"UPDATE {table} SET title = ?, time_updated = ? WHERE id = ?", title, self.now, session)
        elif kind == "take away":
            self.run(f"DELETE FROM {rows} WHERE id = ?", self.chance.choice(ids[-5:]))
        elif kind == "earlier":
            self.speak(session)
            order = "session_message SET seq" if self._in_new else "message SET time_created"
            self.run(f"UPDATE {order} = 0 WHERE rowid = (SELECT max(rowid) FROM {order.split(maxsplit=1)[0]})")
        else:
            self.db.execute("VACUUM")

    def say_again(self, rows: str, row_id: str) -> None:
        if rows == "part":
            self.rewrite(row_id, f"rewritten {self.tick()}")
            return
        at = self.tick()
        data = json.dumps({"text": f"rewritten {at}", "time": {"created": T0}})
        self.run("UPDATE session_message SET data = ?, time_updated = ? WHERE id = ?", data, at, row_id)


@pytest.mark.parametrize("seed", seeds(few=3, usual=20))
@pytest.mark.parametrize("new", [False, True])
async def test_random_lives_of_sessions_that_are_read_on(
    tmp_path: Path, seed: int, new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While people write to them, remove messages of theirs, and put them into the trash for a while."""
    chance = random.Random(f"{seed} {new} {SEED}")
    monkeypatch.setattr(row_tables, "_TAIL_ROWS", chance.choice([6, 256]))
    monkeypatch.setattr(opencode, "_LATEST", chance.choice([1, 2, 4]))
    monkeypatch.setattr(changed_rows, "_AT_REST_S", 0.0)
    monkeypatch.setattr(changed_rows, "_LEISURE", 0)
    tool = Talking(tmp_path / "source" / "opencode.db", chance, new=new)
    following = await Following(tmp_path / "following", limits=chance.choice((None, SHORTENED))).start()
    whole = await Following(tmp_path / "whole", whole=True).start()
    read_on, deleted = 0, list[str]()
    for _ in range(60):
        tool.step()
        told = {*await following.bring(tool.path)}
        for path in await following.sources.compare(1.0):
            told |= {*await following.bring(Path(path))}
        assert told == {*await whole.bring(tool.path)}
        await following.served.shorten()
        read_on += any(one.last is not None for one in following.kept.rows[str(tool.path)].ends.values())
        await _people(chance, deleted, following, whole)
    await same(following, whole)  # type: ignore[arg-type]
    assert read_on
    for one in (following, whole):
        await one.served.close()
    tool.db.close()


async def _people(chance: random.Random, deleted: list[str], *served: Following) -> None:
    """What people do to one of the sessions, in both services."""
    kind = chance.choice(["write", "remove", "delete", "restore", *["nothing"] * 12])
    services = [one.served.service for one in served]
    sessions = sorted(info["sessionId"] for info in (await services[0].list())["sessions"])
    if not sessions or kind == "nothing":
        return
    wire_id, number = chance.choice(sessions), chance.randrange(10**9)
    for service in services:
        if kind == "write":
            said = {
                "id": f"mine-{number}",
                "role": "user",
                "content": "a note",
                "timestamp": "2026-01-01T00:00:00.000Z",
            }
            await service.append(FakePeer(), wire_id, [said])
        elif kind == "remove":
            messages = (await service.read(wire_id))["messages"]
            if len(messages) > 2:
                await service.truncate(FakePeer(), wire_id, messages[-2]["seq"])
        elif kind == "delete":
            await service.delete(wire_id)
        elif deleted:
            await service.restore(None, deleted[-1])
    if kind == "delete":
        deleted.append(wire_id)
    elif kind == "restore" and deleted:
        deleted.pop()
