"""What the ledger of imported sources knows when it is locked, lost, copied, or cannot be written. See also
`test_removed_stays_removed`, which tries everything with everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import Unavailable
from sessiond.importers.record import digest_of
from sessiond.service import source_ledger, source_ledger_file
from sessiond.service.source_ledger import SourceLedger
from sessiond.service.source_merge import SourceDigest
from tests.fakes.peer import FakePeer, user
from tests.service.test_intake import S, Served, record, transcript, wire_id

DIGEST = SourceDigest(messages={b"a": b"b"})


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(source_ledger_file, "_PATIENCE_S", 0.05)
    made = await Served(tmp_path / "home", str(tmp_path / "imports.db")).start()
    yield made
    await made.close()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        other.close()


async def followed(served: Served, path: Path) -> Any:
    following = await served.service.transfer.followed(served.service.stores["default"])
    return (await following.bring(str(path), "claude-code")).sessions


async def test_what_cannot_be_known_is_waited_for(served: Served, tmp_path: Path) -> None:
    """Another program has the ledger: a follower brings nothing, and does so later; who asks for an import gets it."""
    path = transcript(tmp_path / "p", range(1, 4))
    await followed(served, path)
    await served.service.delete(wire_id(path))
    other = transcript(tmp_path / "q", range(1, 4), S + "2")
    with locked(tmp_path / "imports.db"):
        with path.open("a") as file:
            file.write(record(4))
        for one in (path, other):
            with pytest.raises(Unavailable, match="keeps it to itself"):
                await followed(served, one)
        assert (await served.service.list())["sessions"] == []
        assert len((await served.bring(other))["sessions"]) == 1
    await followed(served, path)
    [info] = (await served.service.list())["sessions"]
    assert info["sessionId"] == wire_id(other)


async def test_a_delete_that_cannot_be_noted_is_refused(served: Served, tmp_path: Path) -> None:
    """It is not deleted, since it would come back; nothing else is refused."""
    path = transcript(tmp_path / "p", range(1, 4))
    await followed(served, path)
    await served.service.transfer.followed(served.service.stores["default"])
    await served.service.new(FakePeer(), session_id="mine")
    with locked(tmp_path / "imports.db"):
        for permanent in (False, True):
            with pytest.raises(Unavailable, match="keeps it to itself"):
                await served.service.delete(wire_id(path), permanent=permanent)
        with pytest.raises(Unavailable, match="keeps it to itself"):
            await served.service.truncate(FakePeer(), wire_id(path), 1)
        assert await served.texts(wire_id(path)) == ["text 1", "text 2", "text 3"]
        await served.service.append(FakePeer(), wire_id(path), [user("more")])
        await served.service.delete("mine")
    await served.service.delete(wire_id(path))
    assert (await served.service.list())["sessions"] == []


async def test_what_was_removed_of_our_own_sessions_is_not_noted(served: Served, tmp_path: Path) -> None:
    await served.service.new(FakePeer(), session_id="mine")
    await served.service.append(FakePeer(), "mine", [user("one")])
    await served.service.truncate(FakePeer(), "mine", 0)
    await served.service.delete("mine")
    assert not (tmp_path / "imports.db").exists()


async def test_a_removal_is_durable_when_it_is_answered(tmp_path: Path) -> None:
    """A second connection reads it, while the first ledger still has everything else in memory."""
    path = str(tmp_path / "imports.db")
    ledger, other = SourceLedger(path), SourceLedger(path)
    await ledger.keep("default", "s", "/file", DIGEST)
    await ledger.remove("default", "s")
    await ledger.remove("default", "t", ["m1", "m2"])
    assert (await other.recall("default", "s")).removed
    assert (await other.recall("default", "t")).removed_messages == {digest_of("m1"), digest_of("m2")}
    assert not (await other.recall("default", "t")).removed
    await ledger.came_back("default", "t")
    assert (await other.recall("default", "t")).removed_messages == frozenset()
    await ledger.close()
    await other.close()


async def test_a_digest_waits_for_others_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is written then, without anybody asking for it."""
    monkeypatch.setattr(source_ledger, "_LATEST_S", 0.0)
    path = str(tmp_path / "imports.db")
    ledger, other = SourceLedger(path), SourceLedger(path)
    await ledger.keep("default", "s", "/file", DIGEST)
    async with asyncio.timeout(10):  # pytest's own limit may be raised in a callback of the loop, which only reports it
        while await other.digest("default", "s", "/file") is None:
            pass
    await ledger.close()
    await other.close()


async def test_what_is_noted_while_the_disk_is_full_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "imports.db")
    ledger, other = SourceLedger(path), SourceLedger(path)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(source_ledger_file, "_write", full)
        await ledger.keep("default", "s", "/file", DIGEST)
        await ledger.remove("default", "s")
        await ledger.flush()
    found = await ledger.recall("default", "s")
    assert (found.removed, found.by_path) == (True, {"/file": DIGEST})
    assert not (await other.recall("default", "s")).removed
    await ledger.flush()
    found = await other.recall("default", "s")
    assert (found.removed, found.by_path) == (True, {"/file": DIGEST})
    await ledger.close()
    await other.close()


async def test_a_row_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    ledger = SourceLedger(str(tmp_path / "imports.db"))
    await ledger.keep("default", "s", "/file", DIGEST)
    await ledger.keep("default", "s", "/other", DIGEST)
    await ledger.remove("default", "s")
    await ledger.flush()
    with contextlib.closing(sqlite3.connect(tmp_path / "imports.db")) as db, db:
        db.execute("UPDATE session SET digests = x'c1' WHERE path = '/file'")
    found = await ledger.recall("default", "s")
    assert (found.removed, found.by_path) == (True, {"/other": DIGEST})
    await ledger.close()


async def test_what_another_program_removes_is_noted_when_the_ledger_is_free(served: Served, tmp_path: Path) -> None:
    path = transcript(tmp_path / "p", range(1, 4))
    await followed(served, path)
    await served.service.save(wire_id(path))
    store = served.service.stores["default"]
    Path(store.file_path(wire_id(path))).unlink()
    with locked(tmp_path / "imports.db"):
        await served.service.open_sessions.look_outside(store, wire_id(path))
    (tmp_path / "home" / "trash").rename(tmp_path / "elsewhere")
    with path.open("a") as file:
        file.write(record(4))
    await followed(served, path)
    assert (await served.service.list())["sessions"] == []


async def test_a_session_follows_its_source_to_another_folder(served: Served, tmp_path: Path) -> None:
    """It says where its source is now; what the ledger knew of it is known of it there."""
    path = transcript(tmp_path / "p", range(1, 4))
    await followed(served, path)
    with path.open("a") as file:
        file.write(record(4))
    (tmp_path / "p").rename(tmp_path / "q")
    moved = tmp_path / "q" / path.name
    await followed(served, moved)
    [info] = (await served.service.list())["sessions"]
    assert (info["metadata"]["source"]["path"], info["messageCount"]) == (str(moved), 4)
    ledger = served.service.removals.load()
    assert list((await ledger.recall("default", wire_id(path))).by_path) == [str(moved)]
    copied = transcript(tmp_path / "r", range(1, 6))
    await followed(served, copied)
    [info] = (await served.service.list())["sessions"]
    assert (info["metadata"]["source"]["path"], info["messageCount"]) == (str(moved), 5), "there are two of them now"


async def test_a_fork_is_not_what_its_source_once_had(served: Served, tmp_path: Path) -> None:
    """It says where its words came from. That the ledger was lost does not mean that its source had it, and has lost it."""
    path = transcript(tmp_path / "p", range(1, 4))
    await followed(served, path)
    fork = (await served.service.fork(FakePeer(), wire_id(path)))["sessionId"]
    await served.close()
    (tmp_path / "imports.db").unlink()
    await served.start()
    with path.open("a") as file:
        file.write(record(4))
    await followed(served, path)
    for info in (await served.service.list())["sessions"]:
        assert "gone" not in info["metadata"]["source"], info["sessionId"]
    assert await served.texts(fork) == ["text 1", "text 2", "text 3"]
    path.unlink()
    following = await served.service.transfer.followed(served.service.stores["default"])
    await following.gone([str(path)])
    gone = {
        info["sessionId"]: info["metadata"]["source"].get("gone") for info in (await served.service.list())["sessions"]
    }
    assert gone == {wire_id(path): True, fork: None}
