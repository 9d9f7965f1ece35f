"""A database is read while its tool, another process, writes to it, checkpoints, vacuums, migrates, ends and is killed."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sessiond.importers import database_in_use
from sessiond.importers.database import Database, guarded
from sessiond.importers.database_in_use import written
from sessiond.importers.record import Copied, Event, Ignored, SkippedLine, open_source
from tests.importers.collected import snapshot
from tests.importers.database_writer import CHECKPOINTS, Writer, made
from tests.shell import wait_until
from tests.suite.explore import tries

LIVES = tries(few=4, usual=12)


def rows(database: Database) -> Iterator[Event]:
    """An event for each row of one table, then of the other."""
    for table in ("first", "second"):
        for row in database.rows(f"SELECT id, number FROM {table}"):
            yield Ignored(table, str(row["number"]), row["id"])


def reading(path: Path) -> Iterator[Event]:
    return guarded(str(path), open_source, rows)


def found(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(one.path, one.reason, one.count) for one in events if isinstance(one, Ignored)]


def check(events: list[Event]) -> bool:
    """Whether they are of one state, or say that they may not be. Returns whether they were read in place."""
    there = found(events)
    said = [one for one in events if isinstance(one, SkippedLine)]
    if not said:
        assert len({number for _, number, _ in there}) == 1
        first = [count for table, _, count in there if table == "first"]
        assert first == [count for table, _, count in there if table == "second"]
        assert len(set(first)) == len(first)
    return not said and not any(isinstance(one, Copied) for one in events)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    one = made(tmp_path / "tool" / "tool.db")
    yield one
    one.kill()


def test_it_is_read_where_it_is(writer: Writer) -> None:
    """Nothing is copied, created or changed beside it, not even the index of its log, and what is in its log only is there."""
    before = snapshot(writer.path.parent)
    assert len(before) == 3
    events = list(reading(writer.path))
    assert check(events)
    assert len(found(events)) == 80
    assert snapshot(writer.path.parent) == before


def test_what_a_killed_tool_left_is_read_and_stays(writer: Writer) -> None:
    """Nobody else has it open: whoever closes it last would move the log into it, and remove that."""
    writer.write(1)
    writer.kill()
    before = snapshot(writer.path.parent)
    for _ in range(2):
        events = list(reading(writer.path))
        assert check(events)
        assert len(found(events)) == 82
    assert snapshot(writer.path.parent) == before


def test_a_tool_starts_again_while_what_it_left_is_read(writer: Writer) -> None:
    writer.write(1)
    writer.kill()
    events = reading(writer.path)
    some = [next(events) for _ in range(5)]
    again = Writer(writer.path)
    again.write(2)
    again("PRAGMA wal_checkpoint(PASSIVE)")
    again.write(3)
    again.close()
    whole = [*some, *events]
    assert check(whole)
    assert {number for _, number, _ in found(whole)} == {"1"}


def test_the_log_stays_while_it_is_read(writer: Writer) -> None:
    """The tool ends. Somebody here had the file open meanwhile, and closed it: that takes all locks of ours but one."""
    events = reading(writer.path)
    some = [next(events) for _ in range(5)]
    writer.path.open("rb").close()
    writer.write(1)
    writer.close()
    assert os.path.exists(f"{writer.path}-wal")
    whole = [*some, *events]
    assert check(whole)
    assert {number for _, number, _ in found(whole)} == {"0"}


def test_the_log_of_an_empty_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "tool.db"
    for side in ("", "-wal", "-shm"):
        Path(f"{path}{side}").write_bytes(b"" if not side else b"log")
    before = snapshot(tmp_path)
    list(reading(path))
    assert snapshot(tmp_path) == before


def test_a_snapshot_is_not_held_for_long(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the events pauses: the tool can empty its log all the same, and the rest is of the same state."""
    monkeypatch.setattr(database_in_use, "HELD_S", 0.05)
    events = reading(writer.path)
    some = [next(events) for _ in range(45)]
    writer.write(1)
    wait_until(lambda: writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0)
    writer("PRAGMA journal_mode = DELETE")
    writer.write(2)
    whole = [*some, *events]
    assert check(whole)
    assert {number for _, number, _ in found(whole)} == {"0"}
    assert len(found(whole)) == 80


def test_a_slow_reading_lets_go_by_itself(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never pauses for long enough for another thread to see to it."""
    clock = _Clock()
    monkeypatch.setattr(database_in_use, "time", clock)
    monkeypatch.setattr("threading.Timer", _NoTimer)
    events = reading(writer.path)
    some = [next(events) for _ in range(5)]
    writer.write(1)
    assert writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 1
    clock.now += database_in_use.HELD_S + 1
    some.append(next(events))
    assert writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0
    whole = [*some, *events]
    assert check(whole)
    assert len(found(whole)) == 80


class _Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class _NoTimer:
    daemon = False

    def __init__(self, *_: object) -> None: ...
    def start(self) -> None: ...
    def cancel(self) -> None: ...


def test_no_room_for_the_copy_ends_the_reading(writer: Writer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what is wrong, so that the file is read again; the tool is not held up."""
    monkeypatch.setattr(database_in_use, "HELD_S", -1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        list(reading(writer.path))
    writer.write(1)
    assert writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0


def test_a_reading_that_is_given_up_lets_go(writer: Writer) -> None:
    with closing(reading(writer.path)) as events:  # type: ignore[type-var]
        next(events)
        writer.write(1)
        assert writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 1
    assert writer("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0


@pytest.mark.parametrize("lacking", ["-shm", "writable"])
def test_what_cannot_be_read_in_place_is_copied(writer: Writer, lacking: str) -> None:
    """It is said why; nothing appears beside it."""
    writer.write(1)
    if lacking == "-shm":
        writer.kill()
        os.unlink(f"{writer.path}-shm")
    else:
        writer("PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "PRAGMA cache_spill = 1")
        writer("BEGIN IMMEDIATE", "UPDATE first SET number = 9", "UPDATE second SET number = 9")
        assert os.path.getsize(f"{writer.path}-journal")
    before = sorted(os.listdir(writer.path.parent))
    events = list(reading(writer.path))
    assert [one.path for one in events if isinstance(one, Copied)] == [str(writer.path)]
    assert not check(events)
    assert {number for _, number, _ in found(events)} == {"1"}
    assert sorted(os.listdir(writer.path.parent)) == before


def test_a_link_is_read_with_the_log_of_its_file(writer: Writer, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(writer.path)
    assert len(found(list(reading(link)))) == 80


def test_what_this_process_writes_waits_for_what_it_reads(writer: Writer) -> None:
    """SQLite would refuse it: to one process, the index of the log is either for reading or for writing."""
    events = reading(writer.path)
    next(events)

    def write() -> None:
        with written(str(writer.path)), closing(sqlite3.connect(writer.path)) as db, db:
            db.execute("UPDATE first SET number = 7")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        wait_until(lambda: database_in_use._written[str(writer.path)])
        assert any(isinstance(one, Copied) for one in reading(writer.path))
        list(events)
        writing.result()
    assert {number for table, number, _ in found(list(reading(writer.path))) if table == "first"} == {"7"}


def test_a_reader_that_does_not_end_is_not_waited_for(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants to write is told, and others may read it where it is afterwards."""
    monkeypatch.setattr(database_in_use, "_READERS_S", 0.05)
    events = reading(writer.path)
    next(events)
    with pytest.raises(sqlite3.OperationalError, match="still reading"), written(str(writer.path)):
        pass
    list(events)
    assert check(list(reading(writer.path)))


# Random lives


class Life:
    """A tool that does something between any two records that are read of its database."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self._chance = chance
        self._writer: Writer | None = made(path)
        self._number = 0
        self.refused: list[str] = []

    def step(self) -> None:
        if self._writer is None:
            self._writer = Writer(self.path)
            self._writer("PRAGMA wal_autocheckpoint = 0")
            return
        kind = self._chance.choice(["write"] * 4 + ["delete", "checkpoint", "vacuum", "migrate", "mode", "end", "kill"])
        try:
            self._do(kind, self._writer)
        except RuntimeError as error:
            self.refused.append(f"{kind}: {error}")

    def _do(self, kind: str, writer: Writer) -> None:
        match kind:
            case "write":
                self._number += 1
                writer.write(self._number)
            case "delete":
                gone = "WHERE id IN (SELECT id FROM first ORDER BY id LIMIT 2)"
                writer("BEGIN", f"DELETE FROM second {gone}", f"DELETE FROM first {gone}", "COMMIT")
            case "checkpoint":
                writer(f"PRAGMA wal_checkpoint({self._chance.choice(CHECKPOINTS)})")
            case "vacuum":
                writer("VACUUM")
            case "migrate":
                writer(f"ALTER TABLE second ADD COLUMN new{self._number}_{self._chance.randrange(1 << 30)} TEXT")
            case "mode":
                writer(f"PRAGMA journal_mode = {self._chance.choice(['WAL', 'DELETE', 'TRUNCATE', 'WAL'])}")
            case "end":
                writer.close()
                self._writer = None
            case _:
                writer("BEGIN IMMEDIATE", "UPDATE first SET number = -1")
                writer.kill()
                self._writer = None

    def end(self) -> None:
        if self._writer is not None:
            self._writer.kill()


@pytest.mark.parametrize("life", range(LIVES))
def test_random_lives(tmp_path: Path, life: int) -> None:
    """What is read is of one state, and the tool was kept from nothing but from giving up its log at that moment."""
    chance = random.Random(f"database in use {life}")
    tool = Life(tmp_path / "tool" / "tool.db", chance)
    in_place = 0
    for _ in range(12):
        events: list[Event] = []
        for nth, event in enumerate(reading(tool.path)):
            events.append(event)
            if nth % 20 == 0:
                tool.step()
        in_place += check(events)
        for _ in range(chance.randrange(3)):
            tool.step()
    tool.end()
    assert in_place
    assert {one for one in tool.refused if not one.startswith("mode: ")} == set()
    assert {name.removeprefix("tool.db") for name in os.listdir(tool.path.parent)} <= {"", "-wal", "-shm", "-journal"}
