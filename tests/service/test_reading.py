"""Files read in a separate process: the same events, and nothing is lost when it ends."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

import msgspec
import pytest

from sessiond import pipes
from sessiond.importers import reader as reading
from sessiond.importers import reading_worker, registry
from sessiond.importers.reader import ImportReader, ReadingFault
from sessiond.importers.reading import Counter, SourceReading
from sessiond.importers.record import Event, Ignored, InfoUpdate, SessionEnd, SkippedLine
from tests.service.test_intake import Served, record, transcript, wire_id


@pytest.fixture
def elsewhere():
    """A reader that uses its process, whatever the size."""
    reader = ImportReader()
    reader.large = True
    yield reader
    reader.close()


@pytest.fixture
async def served(tmp_path, monkeypatch):
    """Whose imports all use a process."""
    monkeypatch.setattr("sessiond.service.intake.PROCESS_BYTES", -1)
    one = await Served(tmp_path / "store").start()
    yield one
    await one.service.close()


def found(path: Path, importer: str = "claude-code") -> registry.Found:
    return registry.Found(importer, str(path), 0)


async def read(reader: ImportReader, path: Path, importer: str = "claude-code") -> list[Event]:
    async with aclosing(reader.batches(found(path, importer))) as batches:
        return [event async for batch, _ in batches for event in batch]


async def to_the_end(batches: AsyncIterator[reading.Batch]) -> None:
    async for _ in batches:
        pass


def here(path: Path, importer: str = "claude-code") -> list[Event]:
    whole = SourceReading(importer, str(path), Counter())
    events: list[Event] = []
    while batch := whole.batch():
        events += batch
    return events


def test_every_event_goes_through_the_pipe() -> None:
    """What is encoded and decoded is what it was."""
    events: list[Event] = [
        *(InfoUpdate("a", "b", {"name": "x"}), SkippedLine("p", None, "why", taken=True), SessionEnd("a")),
        Ignored("p", "kind", 3),
    ]
    answer = reading_worker.WorkerResponse(7, events)
    assert reading_worker.decode(reading_worker.encode(answer)) == answer


async def test_the_process_reads_the_same(elsewhere: ImportReader, tmp_path: Path) -> None:
    """Several files one after another, also damaged ones, give the same events as here; bytes are counted."""
    paths = [transcript(tmp_path / "p", range(1, 700)), transcript(tmp_path / "q", range(1, 3))]
    broken = tmp_path / "p" / "broken.jsonl"
    broken.write_bytes(b"\xff\xfe no json\n" + record(1).encode() + b'{"cut')
    for path in [*paths, broken, paths[0]]:
        elsewhere.counter.bytes = 0
        assert await read(elsewhere, path) == here(path)
        assert elsewhere.counter.bytes == path.stat().st_size


async def test_a_file_that_is_not_there(elsewhere: ImportReader, tmp_path: Path) -> None:
    """An OSError with its path, and the next file is read."""
    with pytest.raises(FileNotFoundError) as caught:
        await read(elsewhere, tmp_path / "none.jsonl")
    assert caught.value.filename == str(tmp_path / "none.jsonl")
    path = transcript(tmp_path / "p", range(1, 4))
    assert await read(elsewhere, path) == here(path)


async def test_who_leaves_half_way_is_not_answered_later(elsewhere: ImportReader, tmp_path: Path) -> None:
    """After a file that was given up, the next one's events are its own."""
    long, short = transcript(tmp_path / "p", range(1, 3000)), transcript(tmp_path / "q", range(1, 4))
    async with aclosing(elsewhere.batches(found(long))) as batches:
        await anext(batches)
    assert await read(elsewhere, short) == here(short)


async def test_a_process_that_is_killed(elsewhere: ImportReader, tmp_path: Path) -> None:
    """A fault of that file; another process reads the next one."""
    long, short = transcript(tmp_path / "p", range(1, 20_000)), transcript(tmp_path / "q", range(1, 4))
    async with aclosing(elsewhere.batches(found(long))) as batches:
        await anext(batches)
        assert elsewhere._process is not None
        os.kill(elsewhere._process.pid, signal.SIGKILL)
        with pytest.raises(ReadingFault):
            await to_the_end(batches)
    assert await read(elsewhere, short) == here(short)


async def test_a_path_that_is_no_text_is_read_here(elsewhere: ImportReader, tmp_path: Path) -> None:
    """Names that are not UTF-8 cannot be written into the pipe; they are read nevertheless."""
    path = transcript(tmp_path / "p", range(1, 4))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.jsonl"))
    try:
        path.rename(odd)
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    assert await read(elsewhere, odd) == here(odd)
    assert elsewhere._process is None


async def test_an_import_through_the_process(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything comes in; where the process dies in a file, that is reported, what came before it stays, and a repetition
    brings the rest.
    """
    good = transcript(tmp_path / "p", range(1, 5), "11111111-2222-3333-4444-555555555551")
    bad = transcript(tmp_path / "p", range(1, 3000), "11111111-2222-3333-4444-555555555552")
    last = transcript(tmp_path / "p", range(1, 6), "11111111-2222-3333-4444-555555555553")
    readers: list[ImportReader] = []
    made = reading.ImportReader.__init__

    def noted(self: ImportReader) -> None:
        made(self)
        readers.append(self)

    monkeypatch.setattr(reading.ImportReader, "__init__", noted)

    def kill(_: object) -> None:
        process = readers[0]._process
        if process is not None and readers[0].counter.bytes in range(good.stat().st_size + 1, bad.stat().st_size):
            os.kill(process.pid, signal.SIGKILL)

    result = await served.bring(tmp_path / "p", progress=kill)
    assert any(warning["path"] == str(bad) for warning in result["warnings"])
    assert len(await served.texts(wire_id(last))) == 5
    again = await served.bring(tmp_path / "p")
    assert not again["warnings"]
    assert [len(served.index.messages[wire_id(path)]) for path in (good, bad, last)] == [4, 2999, 5]
    assert all(reader._process is None for reader in readers)


def test_a_process_whose_reader_is_gone_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database with a log beside it is read from a copy, which goes even if the daemon was killed."""
    temporary, path = tmp_path / "temporary", tmp_path / "logs.db"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE conversations (id TEXT, name TEXT, model TEXT)")
        database.execute(
            "CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, system TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT)"
        )
        rows = [(f"r{n}", "m", "q" * 1000, None, "a" * 1000, "c", "2026-01-01T00:00:00") for n in range(1000)]
        database.executemany("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO conversations VALUES ('c', 'name', 'm')")
        database.commit()
    Path(f"{path}-wal").write_bytes(b"not a log")
    with pipes.start(reading_worker.__file__) as process:
        assert process.stdin is not None and process.stdout is not None
        pipes.write_frame(process.stdin, msgspec.msgpack.encode(("llm", str(path), False)))
        assert reading_worker.decode(pipes.read_frame(process.stdout) or b"").events
        assert list(temporary.iterdir()) != []
        process.stdout.close()
        assert process.wait(30) == 1
    assert list(temporary.iterdir()) == []


def test_the_process_by_itself(tmp_path: Path) -> None:
    """One request after another until its input ends: a file's events in batches, or the reason for an invalid file."""
    path = transcript(tmp_path / "p", range(1, 400))
    with pipes.start(reading_worker.__file__) as process:
        assert process.stdin is not None and process.stdout is not None
        events: list[Event] = []
        for _ in range(2):
            pipes.write_frame(process.stdin, msgspec.msgpack.encode(("claude-code", str(path), False)))
            while (answer := reading_worker.decode(pipes.read_frame(process.stdout) or b"")).events:
                events += answer.events
            assert answer == reading_worker.WorkerResponse(path.stat().st_size, [])
        pipes.write_frame(process.stdin, msgspec.msgpack.encode(("claude-code", str(path) + "x", False)))
        answer = reading_worker.decode(pipes.read_frame(process.stdout) or b"")
        assert answer.wrong is not None and answer.wrong[0] == errno.ENOENT
        pipes.write_frame(process.stdin, msgspec.msgpack.encode(("nobodys", str(path), False)))
        answer = reading_worker.decode(pipes.read_frame(process.stdout) or b"")
        assert answer.wrong is not None and "KeyError" in answer.wrong[1]
        process.stdin.close()
        assert process.wait(30) == 0
    assert events == here(path) * 2
