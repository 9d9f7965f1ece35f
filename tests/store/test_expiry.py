"""The trash keeps what is in it for 30 days by default, counted from its deletion, and nothing else expires."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sessiond.fs import FileSystem
from sessiond.fs.real import RealFileSystem
from sessiond.limits import DEFAULT
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from sessiond.store.expiry import Expiry
from sessiond.store.trash import Trash
from tests.fakes.clock import ManualClock
from tests.home import Home

DAY_MS = 24 * 3600 * 1000


def put(trash: Trash, name: str, days_ago: float, clock: ManualClock) -> None:
    """An entry of a session that last changed in 2020."""
    session = Session(name, "2020-01-01T00:00:00.000Z")
    trash.put(name, session, {}, at=timestamp(clock.now_ms() - int(days_ago * DAY_MS)), reason="deleted")


async def left(tmp_path: Path, days: float) -> list[str]:
    fs: FileSystem = RealFileSystem()
    clock = ManualClock()
    trash = Trash(fs, str(tmp_path / "trash"))
    put(trash, "fresh", 29.9, clock)
    put(trash, "old", 30.1, clock)
    limits = msgspec.structs.replace(DEFAULT, trash_days=days)
    expiry = Expiry(lambda: {"default": trash}, clock, limits)
    if days:
        await expiry.round()
    else:
        expiry.start()
    await expiry.stop()
    return [entry.trash_id for entry in trash.list()]


async def test_only_what_lay_there_for_thirty_days_goes(tmp_path: Path) -> None:
    """It counts since when it was deleted, not since when it was written."""
    assert await left(tmp_path, DEFAULT.trash_days) == ["fresh"]


async def test_a_trash_that_fails_keeps_no_other_from_being_cleared(tmp_path: Path) -> None:
    """Whatever goes wrong in one store's trash is logged, and the others' turn comes."""

    class Failing(Trash):
        def expire(self, before: str) -> Sequence[str]:
            raise ValueError("a fault of ours")

    fs: FileSystem = RealFileSystem()
    clock = ManualClock()
    trash = Trash(fs, str(tmp_path / "trash"))
    put(trash, "old", 30.1, clock)
    await Expiry(lambda: {"a": Failing(fs, str(tmp_path / "a")), "b": trash}, clock, DEFAULT).round()
    assert trash.list() == []


async def test_zero_days_keep_for_ever(tmp_path: Path) -> None:
    assert await left(tmp_path, 0) == ["fresh", "old"]


def test_a_daemon_expires_its_trash_and_nothing_else(tmp_path: Path) -> None:
    """At its start already; sessions, however old, stay."""
    with Home(tmp_path) as home:
        client = home.client()
        then = {"role": "user", "content": "x", "timestamp": "2001-01-01T00:00:00.000Z"}
        for name in ("kept", "gone", "recent"):
            client.call("session/new", sessionId=name, messages=[then])
        client.call("session/delete", sessionId="gone")
        client.call("session/delete", sessionId="recent")
        home.stop()
        meta = tmp_path / "data" / "trash" / "default" / "gone" / "meta.json"
        wire = msgspec.json.decode(meta.read_bytes())
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=31)
        wire["deleted_at"] = past.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        meta.write_bytes(msgspec.json.encode(wire))
        home.start()
        client = home.client()
        while os.path.exists(meta):
            client.call("daemon/hello")
        deleted = client.call("session/list", filter={"deleted": True})["sessions"]
        assert [info["sessionId"] for info in deleted] == ["recent"]
        assert [info["sessionId"] for info in client.call("session/list")["sessions"]] == ["kept"]
