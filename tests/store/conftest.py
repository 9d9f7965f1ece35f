"""A folder store put together by hand: on the real disk, or on one that crashes."""

from __future__ import annotations

import posixpath
from typing import Any

import pytest

from sessiond.formats import registry
from sessiond.fs import FileSystem, RealFileSystem
from sessiond.limits import Limits
from sessiond.model.changes import Appended, Change, Created
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.trash import Trash
from tests.fakes.clock import ManualClock
from tests.fakes.journal import InlineJournal
from tests.store.owner import Owner

NOW = "2026-01-11T14:30:22.000Z"


async def inline(function: Any, *args: Any) -> Any:
    return function(*args)


class House:
    """A home folder with one store; `reopen` is a restart after a kill."""

    def __init__(
        self, fs: FileSystem, home: str, fmt: str = "jsonl", limits: Limits | None = None, *, name: str = "default"
    ) -> None:
        self.fs = fs
        self.home = home
        self.name = name
        self.format = registry.get(fmt)
        self.limits = limits or Limits(settle_s=0.0)
        self.clock = ManualClock()
        self.events: list[Any] = []
        self.folder = posixpath.join(home, "sessions")

    async def open(self) -> Owner:
        trashed = f"trash/{self.name}"
        for name in ("sessions", "journal", trashed):
            self.fs.make_dirs(posixpath.join(self.home, name))
        self.journal = InlineJournal(self.fs, posixpath.join(self.home, "journal"), self.limits)
        files = StoreFiles(self.fs, self.folder, self.format)
        trash = Trash(self.fs, posixpath.join(self.home, trashed))
        store = FolderStore(
            name=self.name, fmt=self.format, files=files, trash=trash, journal=self.journal, clock=self.clock,
            limits=self.limits, run=inline,
        )  # fmt: skip
        store.subscribe(self.events.append)
        self.store = Owner(store, self.events.append)
        store.expect({session: batches for (_, session), batches in self.journal.pending.items()})
        await store.open()
        return self.store

    def file(self, local_id: str) -> bytes:
        return self.fs.read(self.store.file_path(local_id))


def message(seq: int, text: str = "", **more: Any) -> Message:
    return Message(id=f"m{seq}", seq=seq, role="user", content=text or f"word {seq}", timestamp=NOW, **more)


def created(name: str | None = None) -> Change:
    return Created(seq=0, at=NOW, info={"createdAt": NOW, "name": name})


def appended(*seqs: int) -> Change:
    return Appended.of([message(seq) for seq in seqs], NOW)


async def begun(store: Owner, local_id: str, count: int) -> Session:
    """A session with `count` durable messages, nothing saved."""
    session = await store.begin(local_id, NOW)
    await store.commit(session, [created("a name")])
    for seq in range(1, count + 1):
        await store.commit(session, [appended(seq)])
    return session


@pytest.fixture
async def house(tmp_path) -> House:
    house = House(RealFileSystem(), str(tmp_path))
    await house.open()
    return house
