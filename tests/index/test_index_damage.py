"""The index may be deleted, damaged, killed or on a full disk at any time: nothing fails, nothing remains wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.index import schema
from sessiond.index.index import Index
from sessiond.index.values import ListQuery
from sessiond.limits import DEFAULT, Limits
from tests import inside
from tests.index.feeding import all_hits, info, key, listed, message, note, opened, search

ROOT = Path(__file__).parent.parent.parent


class Filled:
    """An owner of sessions that fills the index again on request."""

    def __init__(self, sessions: int = 20) -> None:
        self.sessions = [f"s{number}" for number in range(sessions)]
        self.asked = 0
        self.index: Index | None = None

    def refill(self) -> None:
        self.asked += 1
        self.feed()

    def feed(self) -> None:
        assert self.index is not None
        for session_id in self.sessions:
            messages = [message(seq, f"word {session_id} {seq} " + "filler " * 50) for seq in range(1, 21)]
            self.index.put_session(
                info(session_id, name=f"name {session_id}", fingerprint="f"), messages, [note(30, "head", "noted word")]
            )

    async def check(self) -> None:
        """The index knows all of it."""
        assert self.index is not None
        await self.index.settled()
        hits = await all_hits(self.index, "word", limit=1000)
        expected = {(s, seq) for s in self.sessions for seq in (*range(1, 21), 30)}
        assert {key(hit) for hit in hits} == expected
        assert len(hits) == len(expected)
        assert {item.session_id for item in (await listed(self.index, limit=1000)).items} == set(self.sessions)
        assert await self.index.fingerprints("default") == dict.fromkeys(self.sessions, "f")


def garbage(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 1000)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def holes(path: Path) -> None:
    with path.open("r+b") as file:
        for at in range(schema.PAGE_BYTES, path.stat().st_size, 3 * schema.PAGE_BYTES):
            file.seek(at)
            file.write(os.urandom(500))


def older(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 0")
    db.commit()
    db.close()
    Path(f"{path}.seal").unlink()


def other_tokens(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = 'older' WHERE key = 'tokens'")
    db.commit()
    db.close()
    Path(f"{path}.seal").unlink()


def without_its_numbers(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("DELETE FROM meta WHERE key = 'next_doc'")
    db.commit()
    db.close()
    Path(f"{path}.seal").unlink()


def foreign(path: Path) -> None:
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE session (x)")
    db.commit()
    db.close()


def missing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "damage",
    [garbage, empty, truncated, holes, older, other_tokens, without_its_numbers, foreign, missing],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_damage_before_start(tmp_path: Path, damage: Callable[[Path], None], clean: bool) -> None:
    """A file that is damaged, old, foreign or gone at the start is replaced by a fresh one, incomplete until it is filled."""
    owner = Filled()
    async with opened(tmp_path) as owner.index:
        owner.feed()
    path = tmp_path / "index.db"
    damage(path)
    if not clean:
        (tmp_path / "index.db.seal").unlink(missing_ok=True)
    async with opened(tmp_path, on_refill=owner.refill) as owner.index:
        while not owner.index.incomplete:  # after a kill the check runs beside everything else
            await search(owner.index, "word")
        assert (await search(owner.index, "zzz")).incomplete
        owner.feed()
        await owner.check()
        owner.index.incomplete = False
        assert not (await search(owner.index, "word")).incomplete
    async with opened(tmp_path) as owner.index:
        assert not owner.index.incomplete
        await owner.check()


def folder_gone(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("damage", [truncated, holes, missing, foreign, folder_gone], ids=lambda f: f.__name__)
async def test_damage_while_running(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A file that breaks under the daemon is replaced as soon as anybody meets the damage, and its owner is asked to fill it again."""
    owner = Filled()
    async with opened(tmp_path, on_refill=owner.refill) as owner.index:
        owner.index.incomplete = False
        owner.feed()
        await owner.check()
        inside.database(owner.index).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage(tmp_path / "index.db")
        for number in range(200):
            await search(owner.index, f"word {number}", limit=1000)
            await search(owner.index, "wor.", mode="regex")
            await listed(owner.index)
            owner.index.put_info(info("s0", name=f"name {number}", fingerprint="f"))
            await owner.index.settled()
            if owner.asked:
                break
        assert owner.asked
        assert owner.index.incomplete
        await owner.check()


@pytest.mark.parametrize("what", ["nothing", "chunk", "words"])
async def test_the_check_reads_everything(tmp_path: Path, what: str) -> None:
    """The check after a kill reads every text and every word, and finds damage that SQLite itself does not see."""
    owner = Filled()
    async with opened(tmp_path) as owner.index:
        owner.feed()
    db = sqlite3.connect(tmp_path / "index.db")
    if what == "chunk":
        db.execute("UPDATE chunk SET data = x'0102' WHERE id = 3")
    elif what == "words":
        db.execute("UPDATE fts_data SET block = zeroblob(length(block)) WHERE id > 100")
    db.commit()
    db.close()
    reading = schema.connect(str(tmp_path / "index.db"), reading=True)
    try:
        if what == "nothing":
            schema.check(reading)
        else:
            with pytest.raises(schema.IndexUnusable):
                schema.check(reading)
    finally:
        reading.close()


async def test_newer_version_is_set_aside(tmp_path: Path) -> None:
    """A file of a newer version is left as it is, under another name, and a fresh one is begun."""
    async with opened(tmp_path):
        pass
    path = tmp_path / "index.db"
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.commit()
    db.close()
    content = path.read_bytes()
    async with opened(tmp_path) as index:
        assert index.incomplete
    assert (tmp_path / f"index.db.v{schema.VERSION + 1}").read_bytes() == content


async def test_untouched_file_is_kept(tmp_path: Path) -> None:
    """A file that was closed cleanly is taken as it is."""
    owner = Filled(2)
    async with opened(tmp_path) as owner.index:
        owner.feed()
    async with opened(tmp_path) as owner.index:
        assert not owner.index.incomplete
        await owner.check()


async def test_folder_that_cannot_be(tmp_path: Path) -> None:
    """Where no file can be made, another place is in and the problem is reported."""
    (tmp_path / "file").write_text("")
    owner = Filled(2)
    owner.index = Index(str(tmp_path / "file" / "index.db"), DEFAULT)
    await owner.index.open()
    try:
        assert owner.index.problem
        owner.feed()
        await owner.check()
        assert (await search(owner.index, "word")).incomplete
    finally:
        await owner.index.close()


async def test_full_disk(tmp_path: Path) -> None:
    """Feeding continues on a full disk: searches say so; with space again everything is found, lost sessions have no fingerprint."""
    owner = Filled(3)
    async with opened(
        tmp_path, Limits(index_waiting_bytes=50_000), on_refill=lambda: setattr(owner, "asked", owner.asked + 1)
    ) as owner.index:
        index = owner.index
        index.incomplete = False
        owner.feed()
        await owner.check()
        pages = inside.database(index).execute("PRAGMA page_count").fetchone()[0]
        inside.database(index).execute(f"PRAGMA max_page_count = {pages}")
        index.add_messages("s0", [message(40, "big " + " ".join(os.urandom(4).hex() for _ in range(20_000)))])
        await index.settled()
        assert index.problem
        page = await search(index, "word", limit=1000)
        assert page.incomplete
        assert page.total == 63
        index.put_session(info("s1", fingerprint="f2"), [message(1, "word changed")], [])
        index.put_info(info("s2", fingerprint="f2"))
        inside.database(index).execute("PRAGMA max_page_count = 1000000")
        while not owner.asked:
            await asyncio.sleep(0.01)
        await index.settled()
        assert (await search(index, "big")).total == 1
        fingerprints = await index.fingerprints("default")
        assert fingerprints["s1"] == ""
        assert fingerprints["s0"] == "f"
        index.put_session(info("s1", fingerprint="f2"), [message(1, "word changed")], [])
        index.put_session(info("s2", fingerprint="f2"), [], [])
        await index.settled()
        assert (await index.fingerprints("default"))["s1"] == "f2"
        index.incomplete = False  # as its owner says when he is through
        assert not index.incomplete


FEEDER = """
import asyncio, sys
from tests.index.feeding import info, message, opened
from pathlib import Path

async def main():
    async with opened(Path(sys.argv[1])) as index:
        for number in range(10**6):
            session = f"s{number % 50}"
            if number % 7 == 3:
                index.drop_after(session, number // 2)
            index.put_info(info(session, name=f"name {number}", message_count=number, archived=number % 11 == 0))
            index.add_messages(session, [message(number + 1, f"word {number} " * 20)])
            if number % 20 == 0:
                await index.settled()
                print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("rounds", [60, 400, 900])
async def test_kill_9_while_feeding(tmp_path: Path, rounds: int) -> None:
    """After a kill -9 in the middle of feeding, the file is whole: what it holds is consistent and what was settled is in it."""
    feeder = subprocess.Popen(
        [sys.executable, "-c", FEEDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert feeder.stdout is not None
    with feeder:
        settled = [next(int(line) for line in feeder.stdout if int(line) >= rounds)]
        feeder.send_signal(signal.SIGKILL)
        settled += [int(line) for line in feeder.stdout if line.endswith("\n")]
    last = settled[-1]  # it went on until it was killed: only this has not been moved or dropped since
    async with opened(tmp_path) as index:
        if index._checker is not None:
            index._checker.join()
        assert not index.incomplete
        db = inside.database(index)
        db.execute("INSERT INTO fts (fts) VALUES ('integrity-check')")
        indexed = db.execute("SELECT count(*) FROM fts").fetchone()[0]
        docs = db.execute("SELECT count(*) FROM doc").fetchone()[0]
        assert indexed == docs
        assert docs == db.execute("SELECT sum(live) FROM chunk").fetchone()[0]
        assert (await search(index, f'"word {last}"', filter={"archived": last % 11 == 0})).total == 1
        live = await search(index, "word")
        archived = await search(index, "word", filter={"archived": True})
        names = db.execute("SELECT count(*) FROM doc WHERE kind = ?", (schema.NAME,)).fetchone()[0]
        assert live.total + archived.total == docs - names


@pytest.mark.parametrize(
    "damage", ["DELETE FROM chunk", "DROP TABLE chunk", "UPDATE doc SET chunk = 0"], ids=["gone", "dropped", "misled"]
)
@pytest.mark.parametrize("mode", ["text", "regex"])
async def test_a_text_that_is_gone_is_damage(tmp_path: Path, damage: str, mode: str) -> None:
    """A search that needs it says that it is incomplete, and the index is rebuilt."""
    owner = Filled(3)
    async with opened(tmp_path, on_refill=owner.refill) as owner.index:
        owner.index.incomplete = False
        owner.feed()
        await owner.check()
        inside.database(owner.index).execute(damage)
        page = await search(owner.index, "word", mode=mode)
        assert page.incomplete
        assert page.hits == []
        while not owner.asked:
            await owner.index.settled()
        await owner.check()


async def test_damage_of_a_file_that_was_replaced_already_is_no_news(tmp_path: Path) -> None:
    """A reader that met it late does not have the fresh one thrown away."""
    owner = Filled(2)
    async with opened(tmp_path, on_refill=owner.refill) as owner.index:
        owner.feed()
        writer = owner.index._writer
        generation = writer.generation
        for _ in range(2):
            writer.suspect(generation)
            await owner.index.settled()
        while not owner.asked:
            await owner.index.settled()
        await owner.check()
        assert (writer.generation, owner.asked) == (generation + 1, 1)


def with_code(code: int | None, words: str = "") -> sqlite3.Error:
    error = sqlite3.OperationalError(words)
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "damaged"),
    [
        (schema.IndexUnusable("x"), True),
        (ValueError("x"), False),
        (with_code(None, "Could not decode to UTF-8 column 'name'"), True),
        (with_code(None, "unknown"), False),
        (with_code(sqlite3.SQLITE_IOERR_SHORT_READ), True),
        (with_code(sqlite3.SQLITE_READONLY_DBMOVED), True),
        (with_code(sqlite3.SQLITE_IOERR_WRITE), False),
        (with_code(sqlite3.SQLITE_CORRUPT_VTAB), True),
        (with_code(sqlite3.SQLITE_FULL), False),
        (with_code(sqlite3.SQLITE_BUSY), False),
        (with_code(sqlite3.SQLITE_ERROR, "no such table: doc"), True),
        (with_code(sqlite3.SQLITE_ERROR, "near x: syntax error"), False),
    ],
)
def test_what_is_damage_and_what_only_needs_time(error: Exception, damaged: bool) -> None:
    """A fresh file mends damage; it would not mend a full disk or a held lock, and would cost all that is in the old one."""
    assert schema.is_damage(error) is damaged


async def test_a_check_that_is_broken_off_found_nothing(tmp_path: Path) -> None:
    """That it could not read on is reported in SQLite's words, which differ from version to version, and never as damage."""
    async with opened(tmp_path):
        pass
    reading = schema.connect(str(tmp_path / "index.db"), reading=True)
    reading.set_progress_handler(lambda: 1, 1)
    try:
        with pytest.raises(sqlite3.OperationalError) as broken_off:
            schema.check(reading)
        assert not schema.is_damage(broken_off.value)
    finally:
        reading.close()


async def test_an_index_that_was_killed_and_is_broken_is_found_out(tmp_path: Path) -> None:
    """The check beside everything else has it replaced, whether or not anybody searches."""
    owner = Filled()
    async with opened(tmp_path) as owner.index:
        owner.feed()
    db = sqlite3.connect(tmp_path / "index.db")
    db.execute("UPDATE chunk SET data = x'0102' WHERE id = 3")
    db.commit()
    db.close()
    (tmp_path / "index.db.seal").unlink()
    async with opened(tmp_path, on_refill=owner.refill) as owner.index:
        assert owner.index._checker is not None
        await asyncio.to_thread(owner.index._checker.join)
        while not owner.asked:
            await owner.index.settled()
        await owner.check()


async def test_an_index_that_is_closed_while_it_cannot_be_written(tmp_path: Path) -> None:
    """It is closed nevertheless; what was not written has no fingerprint at the next start."""
    owner = Filled(3)
    async with opened(tmp_path) as owner.index:
        owner.feed()
        await owner.check()
        pages = inside.database(owner.index).execute("PRAGMA page_count").fetchone()[0]
        inside.database(owner.index).execute(f"PRAGMA max_page_count = {pages}")
        text = "big " + " ".join(os.urandom(4).hex() for _ in range(20_000))
        owner.index.put_session(info("s0", fingerprint="f2"), [message(1, text)], [])
        await owner.index.settled()
        assert owner.index.problem
        assert owner.index.incomplete
    async with opened(tmp_path) as owner.index:
        assert (await owner.index.fingerprints("default")).get("s0") != "f2"
        assert (await search(owner.index, "big")).total == 0


async def test_a_fresh_file_of_which_nobody_was_told_is_no_list(tmp_path: Path) -> None:
    """Between the creation of a fresh file and its announcement, its content is incomplete."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        await index.settled()
        assert not (await index.list(ListQuery())).lost
        index._told_of -= 1
        assert (await index.list(ListQuery())).lost
