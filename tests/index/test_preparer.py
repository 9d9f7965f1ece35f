"""Messages prepared for the index in a separate process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.index import preparer as module
from sessiond.index.batch import Batch
from sessiond.index.chunks import DamagedChunk, unpack
from sessiond.index.feed_queue import FeedStep
from sessiond.index.index import Index
from sessiond.index.prepared import Prepared, prepare, prepare_requested, requested, texts_of
from sessiond.index.preparer import PreparedBatch, Preparer
from sessiond.index.text import searchable
from sessiond.model.message import Message
from tests.index.feeding import all_hits, info, key, listed, message, note, opened

CONTENTS: list[Any] = [
    "plain words, getUserName and snake_case",
    "日本語の検索 ｶﾞ and fiﬁ",
    [
        {"type": "text", "text": "in a block"},
        {"type": "tool_result", "content": [{"type": "text", "text": "answered"}]},
    ],
    [{"type": "thinking", "thinking": "a thought"}, 7, "bare", None],
    "",
    "a long one " * 2000,
]


def messages(first: int, count: int = 40) -> list[Message]:
    calls = [{"name": "readFile", "arguments": '{"path": "src/main.py"}'}]
    return [
        message(
            seq, CONTENTS[seq % len(CONTENTS)], ("user", "tool", "assistant")[seq % 3], toolCalls=calls, thinking="hm"
        )
        for seq in range(first, first + count)
    ]


def failing(error: type[Exception]) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error("fault")

    return fail


class Collected:
    """A preparer, and a way to wait for its jobs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.preparer = Preparer(self._ready)

    def _ready(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait(self, jobs: list[PreparedBatch]) -> list[Prepared]:
        with self._changed:
            for job in jobs:
                self._changed.wait_for(lambda job=job: job.ready)  # type: ignore[misc]
        return [job.result() for job in jobs]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    monkeypatch.setattr(module, "START_BYTES", 0)
    one = Collected()
    yield one
    one.preparer.close()


def test_prepared_messages_give_their_texts_back() -> None:
    """Prepared data has the texts of every message, and their places."""
    some = messages(1)
    prepared = prepare(some)
    assert [(doc.key, doc.seq, texts) for doc, texts in texts_of(prepared)] == [
        (m.id, m.seq, searchable(m)) for m in some
    ]
    assert sum(chunk.live for chunk in prepared.chunks) == len(some)


def test_the_process_prepares_the_same(collected: Collected) -> None:
    """The process gives exactly what would be prepared here."""
    parts = [messages(1 + 40 * number) for number in range(12)]
    jobs = [collected.preparer.submit(part, 1) for part in parts]
    assert collected.wait(jobs) == [prepare(part) for part in parts]
    assert collected.preparer.process is not None


def test_a_process_that_is_killed_loses_nothing(collected: Collected) -> None:
    """Killed again and again, first by -9 and then as it starts: every job is done nevertheless, in its turn."""
    done = 0
    for number in range(6):
        parts = [messages(1 + 40 * part) for part in range(number, number + 8)]
        jobs = [collected.preparer.submit(part, 1) for part in parts]
        pid = collected.preparer.process
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        assert collected.wait(jobs) == [prepare(part) for part in parts]
        done += len(jobs)
    assert done == 48


def stopped(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> int:
    """Its process, which hangs from now on, and is not waited for long."""
    monkeypatch.setattr(module, "IDLE_S", 600.0)
    collected.wait([collected.preparer.submit(messages(1), 1)])
    pid = collected.preparer.process
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    return pid


@pytest.mark.parametrize("count", [1, 200])
def test_a_process_that_stands_still_keeps_nobody_waiting(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Stopped with one job or more than fit into its pipe: it is killed after a while, and its work is done here, in its turn."""
    pid = stopped(collected, monkeypatch)
    parts = [messages(1 + 40 * number) for number in range(count)]
    jobs = [collected.preparer.submit(part, 1) for part in parts]
    assert collected.wait(jobs) == [prepare(part) for part in parts]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_stands_still_lets_the_daemon_stop(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while it had nothing to do, it does not answer that it ends either: it is killed."""
    pid = stopped(collected, monkeypatch)
    collected.preparer.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_cannot_be_sent_is_prepared_here(collected: Collected) -> None:
    """Numbers beyond 64 bits and lone surrogates, which no store lets in, disturb neither order nor neighbours."""
    odd = [message(1, [{"type": "text", "text": "big", "number": 2**70}]), message(2, "lone \ud800 surrogate")]
    parts = [messages(1), odd, messages(50), [odd[1]], messages(90)]
    jobs = [collected.preparer.submit(part, 1) for part in parts]
    assert collected.wait(jobs) == [prepare(part) for part in parts]


def test_a_fault_is_told_to_who_takes_the_result(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be prepared at all is an error of that job alone."""

    good, bad = messages(2), requested(messages(1, 1))

    def faulty(request: bytes) -> Prepared:
        if request == bad:
            raise KeyError("fault")
        return prepare_requested(request)

    monkeypatch.setattr(module, "START_BYTES", 10**9)
    monkeypatch.setattr(module, "prepare_requested", faulty)
    jobs = [collected.preparer.submit(messages(1, 1), 1), collected.preparer.submit(good, 1)]
    assert len(collected.wait(jobs[1:])[0].docs) == 40
    with pytest.raises(KeyError):
        jobs[0].result()


def test_the_process_ends_when_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is prepared here; a process that was started for much ends when nothing more comes, and when all is closed."""
    one = Collected()
    one.wait([one.preparer.submit(messages(1), 100)])
    assert one.preparer.process is None
    monkeypatch.setattr(module, "START_BYTES", 0)
    monkeypatch.setattr(module, "IDLE_S", 0.01)
    one.wait([one.preparer.submit(messages(1), 1) for _ in range(20)])
    while one.preparer.process is not None:
        pass  # it ends by itself
    monkeypatch.setattr(module, "IDLE_S", 60.0)
    one.wait([one.preparer.submit(messages(1), 1) for _ in range(20)])
    pid = one.preparer.process
    one.preparer.close()
    if pid is not None:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_the_index_is_the_same_when_its_process_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole sessions are found completely, and believed complete, though the process was killed while they were fed."""
    monkeypatch.setattr(module, "START_BYTES", 0)
    monkeypatch.setattr("sessiond.index.index._PART_BYTES", 2000)
    async with opened(tmp_path) as index:
        for number in range(30):
            said = [message(seq, f"word {number} {seq} " + "filler " * 30) for seq in range(1, 41)]
            index.put_session(info(f"s{number}", fingerprint="f"), said, [note(50, "head", "noted word")])
            if index._preparer.process is not None and number % 7 == 3:
                os.kill(index._preparer.process, signal.SIGKILL)
        await index.settled()
        found = {key(hit) for hit in await all_hits(index, "word", limit=1000)}
        assert found == {(f"s{number}", seq) for number in range(30) for seq in (*range(1, 41), 50)}
        assert await index.fingerprints("default") == {f"s{number}": "f" for number in range(30)}


def held(index: Index) -> threading.Event:
    """The writing thread is stopped until the event is set."""
    go = threading.Event()
    index._writer.submit(FeedStep("held", 1, lambda batch: go.wait() and None))
    return go


async def test_a_newer_info_is_not_overwritten_by_a_whole_session(tmp_path: Path) -> None:
    """What lists show changes at once while the session's messages still wait, and stays when they have been written."""
    async with opened(tmp_path) as index:
        go = held(index)
        index.put_session(info("s", name="old name", fingerprint="f1"), [message(1, "word")], [])
        index.put_info(info("s", name="new name", fingerprint="f2"))
        go.set()
        await index.settled()
        assert [item.name for item in (await listed(index)).items] == ["new name"]
        assert await index.fingerprints("default") == {"s": "f2"}
        assert (await all_hits(index, "old")) == []


async def test_no_fingerprint_for_a_session_that_lost_a_part(tmp_path: Path) -> None:
    """Where the file was replaced between a session's beginning and its end, it is not believed to be complete."""
    async with opened(tmp_path) as index:
        stamp = index.begin_session(info("s"), frozenset(), frozenset())
        index.add_part("s", [message(1, "word")])
        await index.settled()
        (tmp_path / "index.db").unlink()
        index.add_part("s", [message(2, "word")])
        index.end_session(info("s", fingerprint="f"), [], stamp)
        await index.settled()
        assert await index.fingerprints("default") == {"s": ""}
        stamp = index.begin_session(info("s"), frozenset({"m-1", "m-2"}), frozenset())
        index.add_part("s", [message(1, "word"), message(2, "word")])
        index.end_session(info("s", fingerprint="f"), [], stamp)
        await index.settled()
        assert await index.fingerprints("default") == {"s": "f"}
        assert {hit.seq for hit in await all_hits(index, "word")} == {1, 2}


async def test_a_part_that_fails_leaves_no_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of which one part could not be written has no fingerprint, so that it is read again."""
    async with opened(tmp_path) as index:
        stamp = index.begin_session(info("s"), frozenset(), frozenset())
        monkeypatch.setattr(Batch, "add_part", failing(KeyError))
        index.add_part("s", [message(1, "word")])
        await index.settled()
        monkeypatch.undo()
        index.add_part("s", [message(2, "word")])
        index.end_session(info("s", fingerprint="f"), [], stamp)
        await index.settled()
        assert index.incomplete
        assert await index.fingerprints("default") == {"s": ""}


async def test_searches_say_that_whole_sessions_wait(tmp_path: Path) -> None:
    """While a part of a whole session is not written, a search is incomplete; lists and single changes do not wait for it."""
    async with opened(tmp_path) as index:
        index.incomplete = False
        never = PreparedBatch([message(1, "late word")])
        index.put_info(info("s"))
        index._writer.submit(FeedStep("s", 1, lambda batch: batch.add_part("s", never.result()), True, never))
        index.put_info(info("other"))
        index.add_messages("other", [message(1, "early word")])
        await index.settled(0.0)
        assert {item.session_id for item in (await listed(index)).items} == {"s", "other"}
        assert index.incomplete
        assert [key(hit) for hit in await all_hits(index, "word")] == [("other", 1)]
        never.prepare_here()
        index._writer.poke()
        await index.settled()
        assert not index.incomplete
        assert len(await all_hits(index, "word")) == 2


@pytest.mark.parametrize(
    "packed", [b"\x00", b"\x00\x00\x00\x00\x05ab", b"\xff\x00\x00\x00\x00", b"", b"\x01\x00\x00\x00\x01a"]
)
def test_what_is_no_document_is_damage(packed: bytes) -> None:
    """Bytes that are cut short, of no kind, of no text, or without the key of whose they are."""
    with pytest.raises(DamagedChunk):
        unpack(packed)
