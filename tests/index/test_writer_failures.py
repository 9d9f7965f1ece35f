"""What the writing thread does when something cannot be written: only that is lost, or time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from sessiond.index import writer as module
from sessiond.index.batch import Batch
from sessiond.index.feed_queue import FeedStep
from sessiond.index.index import Index
from sessiond.index.writer import Writer
from sessiond.model.message import Message
from tests.index.feeding import all_hits, info, key, listed, message, note, opened, search

MINUTE = 60
FULL = "database or disk is full"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)


def held(index: Index) -> threading.Event:
    """The writing thread is stopped until the event is set: what is fed meanwhile shares a transaction."""
    go = threading.Event()
    index._writer.submit(FeedStep("held", 1, lambda batch: go.wait() and None))
    return go


def failing(
    times: int, text: str, real: Callable[[Batch], None], then: Callable[[], None] = lambda: None
) -> Callable[[Batch], None]:
    """`real`, but the first calls say that the disk fails."""
    left = [text] * times

    def call(self: Batch) -> None:
        if left:
            then()
            raise sqlite3.OperationalError(left.pop())
        real(self)

    return call


async def written(index: Index) -> None:
    """All that was fed, though the disk failed meanwhile."""
    await index.settled()
    while index.problem is not None:
        index._writer.mark(bulk=True).result(MINUTE)
    await index.settled()


ODD = {
    "seq": message(2**63, "word"),
    "id": msgspec.structs.replace(message(3, "word"), id="x\udcff"),
    "role": message(3, "word", "x\udcff"),
    "content": message(3, "word \udcff"),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("whole", [False, True])
async def test_a_message_that_cannot_be_written_costs_its_session_only(
    tmp_path: Path, odd: Message, whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything else that shares its transaction is found, and what comes later too. Its session is named, and the index is
    complete: it would stay incomplete for ever.
    """
    async with opened(tmp_path) as index:
        index.incomplete = False
        go = held(index)
        for number in range(20):
            index.put_info(info(f"s{number}"))
            index.add_messages(f"s{number}", [message(1, "word")])
        if whole:
            index.put_session(info("odd", fingerprint="f"), [odd], [])
        else:
            index.put_info(info("odd", fingerprint="f"))
            index.add_messages("odd", [odd])
        for number in range(20, 40):
            index.put_session(info(f"s{number}", fingerprint="f"), [message(1, "word")], [])
        go.set()
        await index.settled()
        index.put_info(info("later"))
        index.add_messages("later", [message(1, "word")])
        await index.settled()
        assert index.problem is None
        found = {key(hit)[0] for hit in await all_hits(index, "word")}
        assert found - {"odd"} == {"later", *(f"s{number}" for number in range(40))}
        fingerprints = await index.fingerprints("default")
        assert all(fingerprints[f"s{number}"] == "f" for number in range(20, 40))
        if "odd" not in found:
            assert index.left_out == ["odd"]
            assert not index.incomplete
            assert fingerprints.get("odd", "") == ""
            assert "odd could not be indexed completely" in caplog.text


@pytest.mark.parametrize("field", ["name", "path", "model", "cwd"])
async def test_an_info_that_cannot_be_written_costs_its_session_only(tmp_path: Path, field: str) -> None:
    """A postponed step that fails at the end of a transaction does not affect the others."""
    async with opened(tmp_path) as index:
        index.put_info(info("odd"))
        go = held(index)
        index.put_info(info("good", name="old"))
        index.put_info(info("odd", **{field: "x\udcff"}))
        index.put_info(info("good", name="new"))
        go.set()
        await index.settled()
        assert index.problem is None
        assert index.left_out == ["odd"]
        assert {(item.session_id, item.name) for item in (await listed(index)).items} == {
            ("good", "new"),
            ("odd", None),
        }


async def test_a_failed_commit_puts_no_note_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a session that is written again, since the disk was full the first time, replaces its notes."""
    told, said, noted = info("s", fingerprint="f"), [message(1, "word")], [note(2, "heading", "word")]
    async with opened(tmp_path) as index:
        index.put_session(told, said, noted)
        stamp = index.begin_session(told, frozenset({"m-1"}), frozenset({"n-2"}))
        index.add_part("s", said)
        await index.settled()
        monkeypatch.setattr(Batch, "commit", failing(2, FULL, Batch.commit))
        index.end_session(told, noted, stamp)
        await written(index)
        assert sorted(map(key, await all_hits(index, "word"))) == [("s", 1), ("s", 2)]
        assert await index.fingerprints("default") == {"s": "f"}


async def test_an_end_without_its_beginning_puts_no_note_twice(tmp_path: Path) -> None:
    """Where nothing is known of a session's beginning, the notes that it has already are replaced nevertheless."""
    async with opened(tmp_path) as index:
        index.put_session(info("s"), [message(1, "word")], [note(2, "heading", "word")])
        index.end_session(info("s"), [note(2, "heading", "word again")], 1)
        await index.settled()
        assert sorted(map(key, await all_hits(index, "word"))) == [("s", 1), ("s", 2)]
        assert len(await all_hits(index, "again")) == 1


async def test_duplicates_that_are_there_go_when_their_session_is_fed_again(tmp_path: Path) -> None:
    """A session that came into the index twice is there once after it was fed as a whole."""
    said, noted = [message(1, "word"), message(2, "other")], [note(3, "heading", "word")]
    async with opened(tmp_path) as index:
        index.put_session(info("s"), said, noted)
        await index.settled()

        def again(batch: Batch) -> None:
            known = batch._sessions.find("s")
            assert known is not None
            for some in said:
                batch._put_doc(known, batch._message_doc(known, some), (("text", str(some.content)),), None)
            for one in noted:
                batch._put_doc(known, batch._note_doc(known, one), (("text", one.content),), None)

        index._writer.submit(FeedStep("s", 1, again))
        await index.settled()
        assert (await search(index, "word")).total == 4, "the test puts no duplicate"
        index.put_session(info("s"), said, noted)
        await index.settled()
        assert sorted(map(key, await all_hits(index, "word"))) == [("s", 1), ("s", 3)]
        assert sorted(map(key, await all_hits(index, "other"))) == [("s", 2)]


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), KeyError("epoch")])
async def test_a_rollback_that_fails_leaves_nothing_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Where the state of the last commit cannot be read again, the file is opened again, and what waits is written to it."""
    real, broken = Batch._load, [False]

    def load(self: Batch) -> None:
        if broken[0]:
            broken[0] = False
            raise error
        real(self)

    async with opened(tmp_path) as index:
        index.put_session(info("first", fingerprint="f"), [message(1, "word")], [])
        await index.settled()
        monkeypatch.setattr(Batch, "_load", load)
        monkeypatch.setattr(Batch, "commit", failing(1, FULL, Batch.commit, lambda: broken.__setitem__(0, True)))
        index.put_session(info("s", fingerprint="f"), [message(n, "word") for n in range(1, 6)], [note(9, "h", "word")])
        await written(index)
        assert not broken[0], "the rollback did not fail"
        found = sorted(map(key, await all_hits(index, "word")))
        assert found == [("first", 1), *(("s", n) for n in range(1, 6)), ("s", 9)]
        assert await index.fingerprints("default") == {"first": "f", "s": "f"}
    with sqlite3.connect(tmp_path / "index.db") as db:
        assert db.execute("SELECT count(*) FROM doc").fetchone() == (7,)
        assert db.execute("SELECT count(*) FROM session").fetchone() == (2,)
    db.close()


class FullDisk:
    """A writer whose transaction is about to fail, and does when `go` is set."""

    def __init__(self, path: Path) -> None:
        self.writer = Writer(str(path), 16 * 1024 * 1024, lambda: None)
        self.begun, self.go = threading.Event(), threading.Event()
        self.writer.open()
        self.writer.submit(FeedStep("s", 1, self._write, bulk=True))
        assert self.begun.wait(MINUTE)

    def _write(self, _: Batch) -> None:
        self.begun.set()
        assert self.go.wait(MINUTE)
        raise sqlite3.OperationalError(FULL)


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    monkeypatch.setattr(module, "RETRY_S", MINUTE)
    made = FullDisk(tmp_path / "index.db")
    yield made
    made.go.set()
    made.writer.close()


@pytest.mark.parametrize("lane", ["live", "bulk"])
def test_who_waits_is_released_when_the_disk_is_full(full: FullDisk, lane: str) -> None:
    """A search that came while the failing transaction was being written does not wait until there is room."""
    mark = full.writer.mark(bulk=lane == "bulk")
    full.go.set()
    mark.result(MINUTE / 2)
    assert full.writer.problem == FULL


def test_an_erasure_does_not_wait_for_room(full: FullDisk) -> None:
    """It is answered: the files may still hold what was removed. The next one, when there is room, cleans them."""
    erased = full.writer.erase()
    full.go.set()
    assert erased.result(MINUTE / 2) is False
