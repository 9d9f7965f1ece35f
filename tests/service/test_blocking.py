"""Nothing on the event loop waits for the disk: the whole core, on a real folder, under a detector of blocking calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from blockbuster import BlockingError, blockbuster_ctx

import sessiond.index.semantic  # noqa: F401  (loading a module blocks, and is not what is tested)
from sessiond.clock import SystemClock
from sessiond.fs import RealFileSystem
from sessiond.index.index import Index
from sessiond.journal.writer import JournalWriter
from sessiond.limits import Limits
from sessiond.store.mounts import Mounts
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


@pytest.fixture
def blocked():
    with blockbuster_ctx("sessiond") as detector:
        yield detector


async def core(path: Path):
    fs, limits = RealFileSystem(), Limits(settle_s=0.01, glanced_file_bytes=1, glanced_end_bytes=400)
    journal, recovery = await JournalWriter.recover(fs, str(path / "journal"), limits)
    mounts = Mounts(fs, str(path), journal, SystemClock(), limits, pending=recovery.pending)
    await mounts.mount_default()
    index = Index(str(path / "index.sqlite3"), limits)
    await index.open()
    service = WireService(stores=mounts.stores, index=index, clock=SystemClock(), limits=limits, idle_s=0.05)
    await service.start()

    async def close():
        await service.close()
        await mounts.close()
        await index.close()
        await journal.close()

    return service, close


async def test_no_request_blocks_the_loop(tmp_path, blocked):
    """Making, appending, streaming, saving, cutting, forking, deleting, restoring, listing, searching, exporting."""
    service, close = await core(tmp_path)
    peer = FakePeer()
    await service.new(peer, session_id="a", name="N")
    await service.append(peer, "a", [user("one"), user("two")])
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "x", "status": "streaming"}])
    await service.extend(peer, "a", "r", "y")
    await service.finish(peer, "a", "r")
    await service.save("a")
    await service.open(peer, "a")
    await service.truncate(peer, "a", 1)
    await service.save("a")
    fork = await service.fork(peer, "a")
    await service.delete("a")
    await service.restore(peer, "a")
    assert len((await service.list())["sessions"]) == 2
    assert (await service.search(peer, query="one"))["total"] == 2
    assert "one" in (await service.export(fork["sessionId"], "markdown"))["content"]
    await close()


async def test_a_glance_does_not_block_it_either(tmp_path, blocked):
    """After a restart: opening, appending what may be there already, reading what is not in memory yet."""
    service, close = await core(tmp_path)
    await service.new(FakePeer(), session_id="a", messages=[user(f"{n}", id=f"x{n}") for n in range(40)])
    await close()
    service, close = await core(tmp_path)
    assert len((await service.open(FakePeer(), "a", last=2))["messages"]) == 2
    await service.append(None, "a", [user("new", id="new")])
    assert service.open_sessions.peek("a").session.absent
    assert (await service.append(None, "a", [user("3", id="x3")]))["seq"] == 4
    assert len((await service.read("a", last=100))["messages"]) == 41
    await close()


async def test_the_detector_detects(tmp_path, blocked):
    """Lest the test above cannot fail: the same detector refuses a call to the disk right on the loop."""
    with pytest.raises(BlockingError):
        RealFileSystem().list_dir(str(tmp_path))
