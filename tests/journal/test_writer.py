"""The writer as the event loop sees it: which caller is told what, and when."""

from __future__ import annotations

import asyncio
import errno
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from sessiond.errors import Indeterminate, ReadOnly, TooLarge
from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter, Recovery
from sessiond.limits import Limits
from tests.fakes.crashfs import CrashFS, CrashLog

Open = Callable[..., Awaitable[tuple[JournalWriter, Recovery]]]


@pytest.fixture
async def open_journal(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens journals, on the real disk unless told otherwise, and closes them after the test."""
    writers: list[JournalWriter] = []

    async def opened(fs: CrashFS | None = None, **limits: int) -> tuple[JournalWriter, Recovery]:
        folder = str(tmp_path / "data" / "journal") if fs is None else "/data/journal"
        disk = RealFileSystem() if fs is None else fs
        writer, recovery = await JournalWriter.recover(disk, folder, Limits(**{"reserve_bytes": 4096, **limits}))
        writers.append(writer)
        return writer, recovery

    yield opened
    for writer in writers:
        await writer.close()


class Gate:
    """Holds every sync of a fake disk until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.reached = threading.Semaphore(0)
        self.may_pass = threading.Semaphore(0)
        real_sync = CrashLog.sync

        def sync(log: CrashLog) -> None:
            self.syncs += 1
            self.reached.release()
            assert self.may_pass.acquire(timeout=20)
            real_sync(log)

        monkeypatch.setattr(CrashLog, "sync", sync)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.acquire, timeout=20)


async def test_what_was_committed_is_there_after_a_restart(open_journal: Open) -> None:
    """Lsns count up; what is not saved comes back by session, in order; what is saved or gone does not."""
    writer, recovery = await open_journal()
    assert (recovery.pending, recovery.damage) == ({}, [])
    assert [await writer.commit("default", "a", seq, b"a%d" % seq) for seq in (1, 2, 3)] == [1, 2, 3]
    await asyncio.gather(*(writer.commit("lisp", name, 1, name.encode()) for name in "xyz"))
    writer.note_saved("default", "a", 2)
    assert await writer.note_gone("lisp", "y") is None
    assert writer.lsn == 8
    assert writer.read_only is None
    await writer.close()
    writer, recovery = await open_journal()
    assert recovery.pending == {("default", "a"): [b"a3"], ("lisp", "x"): [b"x"], ("lisp", "z"): [b"z"]}
    assert writer.lsn == 8
    assert await writer.commit("default", "a", 4, b"a4") == 9


async def test_nothing_is_acknowledged_before_it_is_synced(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit's future is not done while its sync is going on."""
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    gate = Gate(monkeypatch)
    future = writer.commit("default", "a", 1, b"x")
    await gate.until_reached()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not future.done()
    gate.may_pass.release(10)
    assert await future == 1


async def test_what_waits_is_synced_together(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is handed over during one sync is made durable by the next one, in the order of the calls."""
    writer, _ = await open_journal(CrashFS())
    gate = Gate(monkeypatch)
    first = writer.commit("default", "a", 1, b"x")
    await gate.until_reached()
    others = [writer.commit("default", f"s{n}", 1, b"x") for n in range(100)]
    gate.may_pass.release(10)
    assert await first == 1
    assert await asyncio.gather(*others) == list(range(2, 102))
    assert gate.syncs == 2


async def test_a_batch_has_a_size(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than commit_batch_bytes waiting is written in several batches."""
    writer, _ = await open_journal(CrashFS(), commit_batch_bytes=1000)
    gate = Gate(monkeypatch)
    first = writer.commit("default", "a", 1, b"x")
    await gate.until_reached()
    others = [writer.commit("default", "a", n, b"x" * 400) for n in range(2, 8)]
    gate.may_pass.release(10)
    await asyncio.gather(first, *others)
    assert gate.syncs == 3


async def test_a_saved_mark_costs_no_sync(open_journal: Open) -> None:
    """note_saved alone is written and not synced; the next commit's sync serves both."""
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    await writer.commit("default", "a", 1, b"x")
    await writer.commit("default", "a", 2, b"x")  # what follows the first one is done
    steps = fs.steps
    writer.note_saved("default", "a", 1)
    while fs.steps == steps:
        await asyncio.sleep(0)
    await writer.commit("default", "b", 1, b"x")
    assert [line.split()[0] for line in fs.trace[steps:]] == ["write", "write", "sync"]


async def test_a_saved_mark_does_not_cover_what_came_after_it(tmp_path: Path) -> None:
    """Marks wait for each other for a moment; a session that is deleted and made again meanwhile keeps its new changes."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", Limits(reserve_bytes=4096))
    for seq in range(1, 8):
        await writer.commit("default", "a", seq, b"old")
    writer.note_saved("default", "a", 7)
    gone = writer.note_gone("default", "a")
    await writer.commit("default", "a", 1, b"new")
    await gone
    await writer.commit("default", "b", 1, b"later")
    writer.note_saved("default", "b", 1)
    await writer.close()
    (image,) = fs.crash_images(limit=1)
    again, recovery = await JournalWriter.recover(image, "/data/journal", Limits(reserve_bytes=4096))
    assert recovery.pending == {("default", "a"): [b"new"]}
    await again.close()


async def test_many_saved_marks_are_written_together(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks of one turn of the loop are handed to the thread at once, and the loop is not woken for them."""
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    await asyncio.gather(*(writer.commit("default", f"s{n}", 1, b"x") for n in range(50)))
    woken: list[object] = []
    monkeypatch.setattr(writer, "_tell", woken.append)
    steps = fs.steps
    for n in range(50):
        writer.note_saved("default", f"s{n}", 1)
    assert fs.steps == steps
    while writer.lsn < 100:
        await asyncio.sleep(0.001)
    assert {line.split()[0] for line in fs.trace[steps:]} == {"write"}
    assert fs.steps - steps <= 10
    assert not woken


async def test_a_saved_mark_lets_segments_go(open_journal: Open) -> None:
    """Segments that nobody needs any more are removed without being asked for."""
    writer, _ = await open_journal(CrashFS(), segment_bytes=1000)
    for seq in range(1, 20):
        await writer.commit("default", "a", seq, b"x" * 500)
    assert writer.total_bytes > 10_000
    writer.note_saved("default", "a", 19)
    await writer.note_gone("default", "nobody")
    await writer.commit("default", "b", 1, b"x")
    assert writer.total_bytes < 2000


async def test_a_saved_mark_lets_segments_go_on_a_full_disk(open_journal: Open) -> None:
    """Even when the mark itself cannot be written, what it says is true, and makes room."""
    fs = CrashFS()
    writer, _ = await open_journal(fs, segment_bytes=1000)
    for seq in range(1, 20):
        await writer.commit("default", "a", seq, b"x" * 500)
    fs.fail("write", errno.ENOSPC, times=99)
    writer.note_saved("default", "a", 19)
    for _ in range(2):  # the second one is only begun when the mark was tried by itself
        with pytest.raises(ReadOnly):
            await writer.commit("default", "b", 1, b"x")
    fs.heal()
    await writer.commit("default", "b", 1, b"x")
    assert writer.total_bytes < 2000


async def test_a_failed_sync_is_indeterminate_then_read_only(open_journal: Open) -> None:
    """The batch whose sync fails may or may not be there; everything after is refused; a restart serves what it finds."""
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    await writer.commit("default", "a", 1, b"x")
    fs.fail("sync", errno.EIO)
    results = await asyncio.gather(
        *(writer.commit("default", f"s{n}", 1, b"y") for n in range(3)), return_exceptions=True
    )
    assert any(isinstance(result, Indeterminate) for result in results)
    assert all(isinstance(result, (Indeterminate, ReadOnly)) for result in results)
    with pytest.raises(ReadOnly):
        await writer.commit("default", "a", 2, b"x")
    with pytest.raises(ReadOnly):
        await writer.note_gone("default", "a")
    with pytest.raises(ReadOnly):
        await writer.purge("default", "a")
    assert writer.read_only is not None
    assert writer.read_only.final
    assert "Input/output" in writer.read_only.reason
    await writer.close()
    writer, recovery = await open_journal(fs)
    assert writer.read_only is None
    assert recovery.pending["default", "a"] == [b"x"]


async def test_a_full_disk_refuses_and_goes_on(open_journal: Open) -> None:
    """ENOSPC fails the batch cleanly; the next commit for which there is room succeeds."""
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    fs.fail("write", errno.ENOSPC, written=7)
    with pytest.raises(ReadOnly) as caught:
        await writer.commit("default", "a", 1, b"x")
    assert caught.value.hint
    assert writer.read_only is not None
    assert not writer.read_only.final
    assert await writer.commit("default", "a", 1, b"x") == 1
    assert writer.read_only is None


async def test_marks_go_through_when_the_changes_beside_them_do_not(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a batch that is too large for the disk the changes are refused and the marks are written."""
    fs = CrashFS()
    writer, _ = await open_journal(fs, segment_step_bytes=1)
    await writer.commit("default", "a", 1, b"x")
    gate = Gate(monkeypatch)
    holding = writer.commit("default", "b", 1, b"x")
    await gate.until_reached()
    fs.capacity = fs.used() + 500
    large = writer.commit("default", "b", 2, b"x" * 9000)
    mark = writer.note_gone("default", "a")
    gate.may_pass.release(100)
    await holding
    assert await mark is None
    with pytest.raises(ReadOnly):
        await large
    await writer.close()
    _, recovery = await open_journal(fs)
    assert recovery.pending == {("default", "b"): [b"x"]}


async def test_an_error_that_nobody_thought_of_lets_nobody_wait(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in the writer ends in read-only and in answers, not in silence."""
    writer, _ = await open_journal(CrashFS())

    def broken(log: CrashLog, data: bytes) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(CrashLog, "write", broken)
    with pytest.raises(Indeterminate):
        await writer.commit("default", "a", 1, b"x")
    with pytest.raises(ReadOnly, match="read-only"):
        await writer.commit("default", "a", 1, b"x")
    assert "writer failed" in caplog.text


async def test_segments_go_by_themselves_when_all_is_saved(open_journal: Open) -> None:
    """The journal rotates as it grows, says who keeps it from shrinking, and shrinks as soon as those are saved."""
    writer, _ = await open_journal(segment_bytes=10_000)
    for seq in range(1, 101):
        await writer.commit("default", "a" if seq < 50 else "b", seq, b"x" * 1000)
    assert writer.total_bytes > 100_000
    assert writer.oldest_pending() == [("default", "a")]
    writer.note_saved("default", "a", 49)
    await writer.rotate_and_trim()
    assert writer.oldest_pending() == [("default", "b")]
    assert writer.total_bytes < 70_000
    writer.note_saved("default", "b", 100)
    await writer.rotate_and_trim()
    assert writer.oldest_pending() == []
    assert writer.total_bytes < 200


async def test_purge_leaves_no_word(open_journal: Open, tmp_path: Path) -> None:
    """After purge no file under the journal's folder holds a byte of the session, and the others are there."""
    writer, _ = await open_journal(segment_bytes=10_000)
    for seq in range(1, 30):
        await writer.commit("default", "hush-hush", seq, b"<secret>" * 100)
        await writer.commit("default", "b", seq, b"<kept%d>" % seq)
    await writer.purge("default", "hush-hush")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"hush-hush" in path.read_bytes() or b"<secret>" in path.read_bytes() for path in files)
    await writer.close()
    _, recovery = await open_journal(segment_bytes=10_000)
    assert recovery.pending == {("default", "b"): [b"<kept%d>" % seq for seq in range(1, 30)]}


async def test_what_is_too_large_is_refused_at_once(open_journal: Open) -> None:
    """A change over the limit is TooLarge before anything is written, and says the limit."""
    writer, _ = await open_journal(record_bytes=100)
    with pytest.raises(TooLarge) as caught:
        writer.commit("default", "a", 1, b"x" * 200)
    assert caught.value.data["limit"] == 100
    assert await writer.commit("default", "a", 1, b"x" * 80) == 1


async def test_a_cancelled_wait_takes_nothing_back(open_journal: Open) -> None:
    """A caller that stops waiting neither undoes the commit nor disturbs the others in its batch."""
    writer, _ = await open_journal()
    one, two = writer.commit("default", "a", 1, b"x"), writer.commit("default", "b", 1, b"x")
    one.cancel()
    assert await two == 2
    await writer.close()
    _, recovery = await open_journal()
    assert set(recovery.pending) == {("default", "a"), ("default", "b")}


async def test_after_close_commits_are_refused(open_journal: Open) -> None:
    """Everything handed over before close is durable; everything after is ReadOnly; closing twice is not a mistake."""
    writer, _ = await open_journal()
    before = [writer.commit("default", "a", n, b"x") for n in range(1, 50)]
    await writer.close()
    assert [await future for future in before] == list(range(1, 50))
    with pytest.raises(ReadOnly):
        await writer.commit("default", "a", 99, b"x")
    with pytest.raises(ReadOnly):
        await writer.rotate_and_trim()
    writer.note_saved("default", "a", 1)
    await writer.close()
    assert not any(thread.name == "journal" for thread in threading.enumerate())


async def test_a_failure_that_nobody_awaits_is_no_noise(open_journal: Open) -> None:
    """A mark whose future was dropped leaves no warning when it fails."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    fs = CrashFS()
    writer, _ = await open_journal(fs)
    fs.fail("sync", errno.EIO)
    writer.note_gone("default", "a")
    await writer.close()
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_no_call_blocks_the_loop(open_journal: Open, tmp_path: Path) -> None:
    """Opening, committing, marking, asking, purging and closing wait for nothing on the loop's own thread."""
    with blockbuster_ctx("sessiond"):
        writer, _ = await open_journal(segment_bytes=2000)
        for seq in range(1, 9):
            await writer.commit("default", "a", seq, b"x" * 500)
        writer.note_saved("default", "a", 7)
        await writer.note_gone("default", "b")
        assert writer.oldest_pending() == [("default", "a")]
        await writer.purge("default", "a")
        await writer.rotate_and_trim()
        await writer.close()


async def test_the_files_are_private(open_journal: Open, tmp_path: Path) -> None:
    """The journal's files are 0600 and its folders 0700."""
    writer, _ = await open_journal()
    await writer.commit("default", "a", 1, b"x")
    await writer.commit("default", "a", 2, b"x")  # what follows the first one is done
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").rglob("*")}
    assert modes == {"journal": 0o700, "00000001.journal": 0o600, "reserve": 0o600, "synced": 0o600}


_LIMITED = """
    import asyncio, resource, sys
    from sessiond.errors import ReadOnly
    from sessiond.fs import RealFileSystem
    from sessiond.journal import JournalWriter
    from sessiond.limits import Limits

    async def main():
        limits = Limits(reserve_bytes=4096)
        writer, _ = await JournalWriter.recover(RealFileSystem(), sys.argv[1], limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        refused, seq = 0, 0
        while seq < 60:
            try:
                await writer.commit("default", "a", seq + 1, b"%d" % (seq + 1) + b" " * 1000)
                seq += 1
            except ReadOnly as error:
                refused += 1
        print(refused, writer.read_only)
        await writer.close()
        _, recovery = await JournalWriter.recover(RealFileSystem(), sys.argv[1], limits)
        print([int(payload) for payload in recovery.pending["default", "a"]] == list(range(1, 61)), recovery.damage)

    asyncio.run(main())
"""


def test_a_file_size_limit_on_the_real_disk(tmp_path: Path) -> None:
    """Under RLIMIT_FSIZE (EFBIG, and the short write before it) refused batches leave nothing and all others are kept."""
    run = [sys.executable, "-c", textwrap.dedent(_LIMITED), str(tmp_path / "journal")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["3 None", "True []"]


_KILLED = """
    import asyncio, os, signal, sys
    from sessiond.fs import RealFileSystem
    from sessiond.journal import JournalWriter
    from sessiond.limits import Limits

    async def client(writer, name):
        for seq in range(1, 100_000):
            await writer.commit("default", name, seq, b"%d" % seq)
            os.write(1, f"{name} {seq}\\n".encode())

    async def main():
        writer, _ = await JournalWriter.recover(RealFileSystem(), sys.argv[1], Limits(segment_bytes=20_000))
        await asyncio.gather(*(client(writer, f"c{n}") for n in range(4)))

    asyncio.run(main())
"""


async def test_a_real_kill_loses_nothing_that_was_acknowledged(open_journal: Open, tmp_path: Path) -> None:
    """kill -9 in the middle of four clients' commits: every acknowledged one is there, once, in order."""
    folder = str(tmp_path / "data" / "journal")
    run = [sys.executable, "-c", textwrap.dedent(_KILLED), folder]
    process = await asyncio.create_subprocess_exec(*run, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    seen = [await process.stdout.readline() for _ in range(2000)]
    process.kill()
    seen += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    _, recovery = await open_journal()
    for name in ("c0", "c1", "c2", "c3"):
        acked = [int(line.split()[1]) for line in seen if line.endswith(b"\n") and line.startswith(name.encode())]
        kept = [int(payload) for payload in recovery.pending["default", name]]
        assert kept == list(range(1, len(kept) + 1))
        assert len(kept) >= len(acked) > 0
