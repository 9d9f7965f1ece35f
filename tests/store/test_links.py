"""Links in the place of the daemon's files: nothing outside the store changes, wherever they lead."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import BadFile, SessiondError, Unavailable
from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.service.sessions import Service
from sessiond.store.files import MARK
from sessiond.store.mounts import Mounts
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import NOW, message
from tests.suite.explore import tries

TRIES = tries(few=2, usual=5)
KINDS = ("to a file", "to a folder", "to nothing", "hard")
READING = ("stat", "look", "has_name", "is_link", "list_dir", "real_path", "read", "free_bytes", "confine")


class Traced(RealFileSystem):
    """Remembers every path that something other than reading was asked of, and does a deed at one of these moments."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[str, None] = {}
        self.calls = 0
        self.moment = -1
        self.deed: Callable[[], None] = lambda: None
        self._one = threading.Lock()

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or name in READING or not callable(found) or name == "deed":
            return found

        def traced(*args: Any, **more: Any) -> Any:
            with self._one:
                self.paths |= dict.fromkeys(one for one in args if isinstance(one, str))
                self.calls += 1
                due = self.calls == self.moment
            if due:
                self.deed()
            return found(*args, **more)

        return traced


class Life:
    """A home with an adopted folder `disk`, and what lies outside both."""

    def __init__(self, path: Path, fmt: str) -> None:
        self.format = registry.get(fmt)
        self.data, self.disk, self.outside = path / "data", path / "disk", path / "outside"
        for folder in (self.data / "mounts", self.data / "sessions", self.data / "trash", self.disk, self.outside):
            folder.mkdir(parents=True)
        self.fs = Traced()
        session = Session("old", NOW)
        session.add_message(message(1, "a word"))
        for write in self.format.encode(session, {}):
            target = self.disk / write.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(write.data)

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Service]:
        journal, _ = await JournalWriter.recover(RealFileSystem(), str(self.data / "journal"), Limits(reserve_bytes=0))
        mounts = Mounts(self.fs, str(self.data), journal, ManualClock(), Limits(settle_s=0.0), pending={})
        await mounts.mount_default()
        await mounts.mount("disk", str(self.disk), self.format.name)
        service = WireService(stores=mounts.stores, index=FakeIndex(), clock=ManualClock(), limits=Limits(), idle_s=0.0)
        await service.start()
        try:
            yield service
        finally:
            await service.close()
            await mounts.close()
            await journal.close()

    async def live(self) -> list[SessiondError]:
        """Appends, saves, cuts, deletes, restores, forks, moves. What was refused on the way."""
        refused: list[SessiondError] = []

        async def step(work: Awaitable[Any]) -> None:
            try:
                await work
            except SessiondError as error:
                refused.append(error)

        peer = FakePeer("one")
        async with self.service() as service:
            await step(service.new(peer, session_id="a", store="disk", messages=[user("one"), user("two")]))
            for one in ("disk/a", "disk/old"):
                await step(service.save(one))
                await step(service.append(peer, one, [user("three")]))
                await step(service.save(one))
                await step(service.truncate(peer, one, 2))
                await step(service.save(one))
            await step(service.delete("disk/a"))
            await step(service.restore(peer, "disk/a"))
            await step(service.fork(peer, "disk/old"))
            await step(service.move(peer, "disk/a", "default"))
            await step(service.delete("disk/old"))
        return refused

    def places(self) -> list[Path]:
        """All that was written below the roots, and the folders on the way, but for names that nobody can foresee."""
        roots = (self.disk, self.data / "sessions", self.data / "trash")
        found: dict[Path, None] = {}
        for written in map(Path, self.fs.paths):
            for root in roots:
                if written.is_relative_to(root) and MARK not in written.name:
                    found |= dict.fromkeys(
                        one for one in (written, *written.parents) if one != root and one.is_relative_to(root)
                    )
        return sorted(found)

    def users_own(self, path: Path) -> bool:
        """Whether a session's own file is there: a link to a file is followed in its place."""
        own = {Path(self.format.main_path("x")).suffix, ".jsonl", ".org"}
        return path.suffix in own and ".sessiond" not in path.parts

    def plant(self, path: Path, kind: str, names: list[str]) -> None:
        """What was there is outside then; a link, to something precious with the names that are written, is in its place."""
        path.parent.mkdir(parents=True, exist_ok=True)
        victim, folder = self.outside / "victim", self.outside / "folder"
        victim.write_text("precious\n")
        for name in names:
            (folder / name / name).mkdir(parents=True, exist_ok=True)
            (folder / name / name / "precious").write_text("precious\n")
            (folder / name / "precious").write_text("precious\n")
        if os.path.lexists(path):
            path.rename(self.outside / "was")
        if kind == "hard":
            was = self.outside / "was"
            os.link(was if was.is_file() else victim, path)
        else:
            path.symlink_to({"to a file": victim, "to a folder": folder, "to nothing": self.outside / "nothing"}[kind])

    def seen(self) -> dict[str, Any]:
        return {
            str(one): (one.read_bytes() if one.is_file() else None, one.lstat().st_mode)
            for one in sorted(self.outside.rglob("*"))
        }


@pytest.mark.parametrize("fmt", registry.NAMES)
async def test_5_a_link_leads_nothing_out(tmp_path: Path, fmt: str) -> None:
    """At each path that is written in a life, before or in the middle of it: nothing outside changes, and whoever is refused is told
    so as an error that names it. A link to a file in the place of a session's own file is followed, and stays one.
    """
    first = Life(tmp_path / "first", fmt)
    assert await first.live() == []
    places = [path.relative_to(tmp_path / "first") for path in first.places()]
    assert len(places) > 10
    chosen = list(itertools.product(places, KINDS, (True, False)))
    for number, (place, kind, early) in enumerate(
        random.Random(f"{fmt} {TRIES}").sample(chosen, min(TRIES, len(chosen)))
    ):
        life = Life(tmp_path / str(number), fmt)
        path = tmp_path / str(number) / place
        before: dict[str, Any] = {}

        def deed(life: Life = life, path: Path = path, kind: str = kind, before: dict[str, Any] = before) -> None:
            life.plant(path, kind, sorted({one.name for one in places}))
            before |= life.seen()

        if early:
            deed()
        else:
            life.fs.deed = deed
            life.fs.moment = random.Random(number).randrange(first.fs.calls // 2)
        await life.live()
        after = life.seen()
        if kind == "to a file" and life.users_own(path):
            before.pop(str(life.outside / "victim"), None)
            after.pop(str(life.outside / "victim"), None)
        assert not before or after == before, (place, kind, early)


@pytest.mark.parametrize("place", [".sessiond", ".sessiond/store.json", ".sessiond/lock"])
async def test_5_a_folder_with_a_link_of_ours_is_out_of_reach(tmp_path: Path, place: str) -> None:
    """It is said which link it is, and the folder is a store as soon as that is gone."""
    life = Life(tmp_path, "jsonl")
    life.plant(life.disk / place, "to a folder", ["store.json", "lock"])
    async with life.service() as service:
        with pytest.raises(Unavailable, match=f"{place} is a link"):
            await service.new(FakePeer("one"), session_id="a", store="disk")
    (life.disk / place).unlink()
    assert await life.live() == []


async def test_5_a_sidecar_that_is_a_link_is_a_bad_file(tmp_path: Path) -> None:
    """With the link's path, and what to do."""
    life = Life(tmp_path, "jsonl")
    life.plant(life.disk / ".sessiond" / "old.json", "to a file", [])
    async with life.service() as service:
        with pytest.raises(BadFile) as refused:
            await service.open(FakePeer("one"), "disk/old")
    assert refused.value.data["path"] == str(life.disk / ".sessiond" / "old.json")
    assert "remove the link" in str(refused.value.hint)


async def test_5_a_session_in_a_linked_folder_is_a_bad_file(tmp_path: Path) -> None:
    life = Life(tmp_path, "sibyl")
    (life.disk / "old").rename(life.outside / "old")
    (life.disk / "old").symlink_to(life.outside / "old")
    async with life.service() as service:
        with pytest.raises(BadFile, match="is a link"):
            await service.open(FakePeer("one"), "disk/old")
        assert [one.local_id async for batch in service.stores["disk"].scan() for one in batch] == ["old"]
