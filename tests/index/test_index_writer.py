"""What the writing thread writes when, and who waits for it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiond.index import checkpointer
from sessiond.index.batch import Batch
from sessiond.index.checkpointer import COMMIT_PAGES, EVERY_PAGES, KEPT_BYTES, Checkpointer
from sessiond.index.feed_queue import FeedStep
from sessiond.index.prepared import prepare
from sessiond.index.schema import IndexUnusable, connect
from sessiond.index.writer import LARGE_SLICE, MERGE_WEIGHT, TRANSACTION_BYTES, Writer
from tests.index.feeding import info, message
from tests.shell import wait_until

MINUTE = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    one = Writer(str(path), 16 * 1024 * 1024, lambda: None)
    one.open()
    yield one
    one.close()


def bulk(session_id: str, apply: Callable[[Batch], None], weight: int = 1) -> FeedStep:
    return FeedStep(session_id, weight, apply, bulk=True)


def test_a_change_that_is_waited_for_ends_the_transaction_of_whole_sessions(writer: Writer) -> None:
    """It is committed with what is being written of whole sessions just then, and not after all of them."""
    begun, go, on = threading.Event(), threading.Event(), threading.Event()
    done: list[int | str] = []

    def first(_: Batch) -> None:
        begun.set()
        assert go.wait(MINUTE)

    def later(number: int) -> Callable[[Batch], None]:
        def apply(_: Batch) -> None:
            done.append(number)
            assert on.wait(MINUTE)

        return apply

    writer.submit(bulk("large", first))
    assert begun.wait(MINUTE)
    for number in range(20):
        writer.submit(bulk("large", later(number)))
    writer.submit(FeedStep("small", 1, lambda _: done.append("change")))
    mark = writer.mark(bulk=False)
    go.set()
    mark.result(MINUTE)
    assert done[:2] in (["change"], ["change", 0]), "whole sessions went on before it could be seen"
    on.set()
    writer.mark(bulk=True).result(MINUTE)
    assert done == ["change", *range(20)]


def test_whole_sessions_are_committed_though_more_of_them_comes_all_the_time(writer: Writer) -> None:
    """A transaction ends after so many bytes; what it took in can be seen while the next is written."""
    seen: list[bool] = []
    first = writer.mark(bulk=True)
    writer.submit(bulk("s", lambda _: None, TRANSACTION_BYTES))
    writer.submit(bulk("s", lambda _: None, TRANSACTION_BYTES))
    middle = writer.mark(bulk=True)
    writer.submit(bulk("s", lambda _: seen.append(middle.done())))
    writer.mark(bulk=True).result(MINUTE)
    assert first.done()
    assert seen == [True]


def test_documents_go_to_the_file_a_slice_at_a_time(writer: Writer) -> None:
    """No more than a slice of them, and one part, gathers in memory before it is written."""
    most: list[int] = []
    told = info("s")

    def part(start: int) -> Callable[[Batch], None]:
        def apply(batch: Batch) -> None:
            most.append(batch.waiting)
            batch.add_part("s", prepare([message(start + n, f"word{start + n}") for n in range(100)]))

        return apply

    writer.mark(bulk=False).result(MINUTE)  # somebody asks
    writer.submit(bulk("s", lambda batch: batch.begin_session(told, frozenset(), frozenset(), 1)))
    for start in range(1, 2001, 100):
        writer.submit(bulk("s", part(start)))
    writer.mark(bulk=True).result(MINUTE)
    assert len(most) == 20
    assert max(most) <= LARGE_SLICE + 100


def test_the_log_goes_into_the_file_without_the_writer(writer: Writer, path: Path) -> None:
    """Committed data is copied into the file by another thread, long before the writing connection would do it."""
    before = path.stat().st_size
    text = " ".join(f"word{number}" for number in range(3000))

    def one(number: int) -> Callable[[Batch], None]:
        def apply(batch: Batch) -> None:
            batch.put_info(info(f"s{number}"), number)
            batch.add_messages(f"s{number}", [message(1, f"{text} {number}")])

        return apply

    for number in range(EVERY_PAGES // COMMIT_PAGES + 1):
        writer.submit(FeedStep(f"s{number}", 1, one(number)))
        writer.mark(bulk=False).result(MINUTE)  # a transaction of its own
    wait_until(lambda: path.stat().st_size > before)


def feed_much(writer: Writer) -> None:
    """So much that the log grows long."""
    text = " ".join(f"word{number}" for number in range(2000))
    writer.submit(bulk("s", lambda batch: batch.begin_session(info("s"), frozenset(), frozenset(), 1)))
    for start in range(1, 1001, 100):
        prepared = prepare([message(start + n, f"{text} {start + n}") for n in range(100)])
        writer.submit(bulk("s", lambda batch, prepared=prepared: batch.add_part("s", prepared)))  # type: ignore[misc]
    writer.mark(bulk=True).result(MINUTE)


def test_a_long_log_is_cut_when_nothing_more_comes(writer: Writer, path: Path) -> None:
    """What an import leaves next to the index is given back to the disk."""
    log = path.with_name(path.name + "-wal")
    feed_much(writer)
    assert log.stat().st_size > KEPT_BYTES
    wait_until(lambda: log.stat().st_size <= KEPT_BYTES)


def test_a_long_log_is_cut_though_somebody_read_at_first(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader at the time of the cut only delays it: it is tried again, even if nothing more arrives."""
    monkeypatch.setattr(checkpointer, "IDLE_S", 0.05)
    real, cut = Checkpointer._checkpoint, []

    def checkpoint(self: Checkpointer, mode: str) -> bool:
        done = real(self, mode)
        if mode == "TRUNCATE":
            cut.append(done)
        return done

    monkeypatch.setattr(Checkpointer, "_checkpoint", checkpoint)
    log = path.with_name(path.name + "-wal")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM doc").fetchone()
    feed_much(writer)
    wait_until(lambda: False in cut)
    assert log.stat().st_size > KEPT_BYTES
    reader.close()
    wait_until(lambda: log.stat().st_size <= KEPT_BYTES)


def test_segments_are_put_together_when_nothing_more_comes(writer: Writer, path: Path) -> None:
    """What many slices left is merged in the background: a search looks into few segments, and finds the same."""

    def asked(sql: str) -> int:
        db = connect(str(path), reading=True)
        try:
            found: int = db.execute(sql).fetchone()[0]
            return found
        finally:
            db.close()

    segments = "SELECT count(DISTINCT segid) FROM fts_idx"
    text = " ".join(f"word{number}" for number in range(300))
    writer.submit(bulk("s", lambda batch: batch.begin_session(info("s"), frozenset(), frozenset(), 1)))
    for start in range(1, 6001, 500):
        prepared = prepare([message(start + n, f"{text} {start + n} needle") for n in range(500)])
        writer.submit(bulk("s", lambda batch, prepared=prepared: batch.add_part("s", prepared), MERGE_WEIGHT))  # type: ignore[misc]
        writer.mark(bulk=True).result(MINUTE)
    many = asked(segments)
    assert many > 6
    wait_until(lambda: asked(segments) <= 4)
    assert asked("SELECT count(*) FROM fts WHERE fts MATCH 'needle'") == 6000


def test_what_comes_while_segments_are_put_together_is_written(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as written like everything else: nobody keeps being told that searches are incomplete."""
    merging, go = threading.Event(), threading.Event()

    def slow(_: Batch) -> bool:
        merging.set()
        assert go.wait(MINUTE)
        return False

    monkeypatch.setattr(Batch, "merge", slow)
    writer.submit(bulk("s", lambda _: None, MERGE_WEIGHT + 1))
    assert merging.wait(MINUTE)
    writer.submit(bulk("s", lambda _: None))
    go.set()
    writer.mark(bulk=True).result(MINUTE)
    assert not writer.behind
    assert writer.room() is None


@pytest.mark.parametrize(("error", "files"), [(sqlite3.OperationalError("full"), 1), (IndexUnusable("damaged"), 2)])
def test_segments_that_cannot_be_put_together(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, error: Exception, files: int
) -> None:
    """They remain as they are and no session counts as lost; where the file turns out to be damaged it is replaced."""
    tried = threading.Event()

    def fail(_: Batch) -> bool:
        tried.set()
        raise error

    monkeypatch.setattr(Batch, "merge", fail)
    writer.submit(bulk("s", lambda _: None, MERGE_WEIGHT + 1))
    assert tried.wait(MINUTE)
    writer.submit(bulk("s", lambda _: None))
    writer.mark(bulk=True).result(MINUTE)
    assert (writer.problem, writer.lost, writer.generation) == (None, set(), files)
