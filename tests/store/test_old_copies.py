"""Systems that write a session's whole file from their memory, and a daemon that appends to it: theia, sibyl, agent-q.

Each system is a small model: what it has in memory, and what it does with that. It never waits until the daemon has looked.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.errors import SessionNotFound
from sessiond.formats.lisp_times import print_emacs_time, print_universal_time
from sessiond.fs import RealFileSystem
from sessiond.model.changes import Appended, Created
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.store.conftest import House
from tests.store.owner import Owner
from tests.suite.explore import seeds

SESSION = "session-1"
HISTORIES = seeds(few=5, usual=25)
Turn = tuple[str, str, str, str]
"""Id, role, text, time."""


def _theia(turns: list[Turn]) -> str:
    return json.dumps({"messages": [{"role": role, "content": text} for _, role, text, _ in turns], "plan": None})


def _sibyl(turns: list[Turn]) -> str:
    shown = [f'(:role :{role} :content "{text}" :timestamp {print_universal_time(at)})' for _, role, text, at in turns]
    return f'(:version 1 :id "{SESSION}" :created-at 3900000000 :summary nil :messages ({" ".join(shown)}))\n'


def _agent_q(turns: list[Turn]) -> str:
    shown = [
        f'(:id "{one}" :role {role} :content "{text}" :timestamp {print_emacs_time(at)} :context-snapshot nil :metadata nil)'
        for one, role, text, at in turns
    ]
    top = f'(:version 1 :id "{SESSION}" :name nil :created-at (26000 0 0 0) :updated-at (26000 0 0 0) :model nil'
    return f";; Agent-Q Session\n\n{top} :messages ({' '.join(shown)}) :metadata nil)\n"


def _tick(text: str, at: str) -> str:
    number, _, said = text.partition("|")
    return (
        f"\n* Tick {number}\n:PROPERTIES:\n:TIMESTAMP: {at}\n:END:\n\n** Human\n{said}\n\n** Agent\nanswer to {said}\n"
    )


WRITERS: dict[str, Callable[[list[Turn]], str]] = {"theia": _theia, "sibyl": _sibyl, "agent-q": _agent_q}


class System:
    def __init__(self, fmt: str, house: House) -> None:
        self.fmt, self.house = fmt, house
        self.memory: list[Turn] = []
        self.forgotten: set[str] = set()
        """Texts that the user cleared, or cut away together with one that the daemon knew the system to have."""
        self.had: set[str] = set()
        """Texts in versions that the system wrote itself."""
        self.count = 0

    @property
    def file(self) -> Path:
        return Path(self.house.folder, self.house.format.main_path(SESSION))

    def load(self) -> None:
        """Read the file as its own code does, which knows no sidecar."""
        path = self.house.format.main_path(SESSION)
        if self.file.exists():
            session = self.house.format.decode(SESSION, {path: self.file.read_bytes()}).session
            self.memory = [(one.id, one.role, one.text(), one.timestamp) for one in session.messages()]

    def say(self) -> None:
        self.count += 1
        at = timestamp(1_768_142_400_000 + self.count * 61_000)
        self.memory.append((f"t{self.count}", "user", f"theirs {self.count}", at))
        self.write()

    def write(self) -> None:
        self.had |= {text for _, _, text, _ in self.memory}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.file.with_name(".fresh")
        fresh.write_text(WRITERS[self.fmt](self.memory))
        fresh.replace(self.file)

    def clear(self) -> None:
        self.forgotten |= {text for _, _, text, _ in self.memory}
        self.memory = []
        if self.fmt == "theia":
            self.file.unlink(missing_ok=True)
        else:
            self.write()

    def clear_and_say(self) -> None:
        self.clear()
        self.say()

    def shorten(self, kept: int) -> None:
        gone = {text for _, _, text, _ in self.memory[kept:]}
        if gone & self.had:
            self.forgotten |= gone
        self.memory = self.memory[:kept]
        self.write()


class Daemon:
    def __init__(self, house: House) -> None:
        self.house = house
        self.acknowledged: list[str] = []
        self.store: Owner

    async def start(self) -> None:
        self.store = await self.house.open()

    async def session(self) -> Session:
        try:
            return (await self.store.load(SESSION)).session
        except SessionNotFound:
            self.store.sessions.pop(SESSION, None)
            session = await self.store.begin(SESSION, timestamp(1_768_142_400_000))
            at = session.created_at
            await self.store.commit(session, [Created(seq=0, at=at, info={"createdAt": at})])
            return session

    async def append(self, save: bool, role: str = "assistant") -> None:
        """An acknowledged message; the runner looks at the files first, as a request to an open session does not."""
        session = self.store.sessions.get(SESSION) or await self.session()
        seq = session.seq + 1
        text = f"ours {len(self.acknowledged)}"
        at = timestamp(1_768_142_400_000 + len(self.acknowledged) * 60_000 + 7000)
        message = Message(id=f"m{len(self.acknowledged)}", seq=seq, role=role, content=text, timestamp=at)
        await self.store.commit(session, [Appended.of([message], at)])
        self.acknowledged.append(text)
        if save:
            await self.store.save(SESSION)

    async def texts(self) -> list[str]:
        try:
            return [one.text() for one in (await self.store.load(SESSION)).session.messages()]
        except SessionNotFound:
            return []

    async def in_trash(self) -> set[str]:
        trash = self.store.store._around.trash
        found: set[str] = set()
        for entry in trash.list():
            found |= {one.text() for one in trash.get(entry.trash_id)[0].messages()}
        return found


async def _history(seed: int, fmt: str, home: str) -> None:
    choose = random.Random(seed)
    house = House(RealFileSystem(), home, fmt)
    daemon, system = Daemon(house), System(fmt, house)
    await daemon.start()
    told = []
    for _ in range(choose.randint(3, 14)):
        act = choose.choice(
            [
                "append",
                "append",
                "save",
                "look",
                "say",
                "say",
                "load",
                "load",
                "old",
                "clear",
                "anew",
                "shorten",
                "restart",
            ]
        )
        told.append(act)
        match act:
            case "append":
                await daemon.append(save=choose.random() < 0.7)
            case "save" if SESSION in daemon.store.sessions:
                await daemon.store.save(SESSION)
            case "look":
                await daemon.texts()
            case "restart":
                await daemon.start()
            case "say":
                system.say()
            case "load":
                system.load()
            case "old" if system.memory:
                system.write()
            case "clear":
                system.clear()
            case "anew":
                system.clear_and_say()
            case "shorten" if system.memory:
                system.shorten(choose.randrange(len(system.memory)))
    there = await daemon.texts()
    if not system.file.exists():
        await daemon.session()  # what only the sidecar had goes into the trash with it
    if SESSION in daemon.store.sessions:
        await daemon.store.save(SESSION)
    assert await daemon.texts() == there, told
    await daemon.start()
    assert await daemon.texts() == there, told
    assert len(there) == len(set(there)), (told, there)
    back = system.forgotten & set(there)
    assert not back, (told, back)
    # What its own system has written, and took away while no daemon looked, is gone by somebody's will.
    lost = set(daemon.acknowledged) - set(there) - await daemon.in_trash() - system.had
    assert not lost, (told, lost)
    gone = {text for _, _, text, _ in system.memory} - set(there)
    assert not (gone if system.file.exists() else set()) - set(daemon.acknowledged), (told, gone)


@pytest.mark.parametrize("fmt", WRITERS)
def test_7_random_writers_from_memory(fmt: str) -> None:
    """What the user cleared does not come back; what was acknowledged and an old copy lacks comes back, or is in the trash."""
    for seed in HISTORIES:
        with tempfile.TemporaryDirectory() as home:
            try:
                asyncio.run(_history(seed, fmt, posixpath.join(home, "h")))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("fmt", WRITERS)
@pytest.mark.parametrize("daemon_down", [False, True])
async def test_7_an_emptied_session_and_a_new_chat_at_once(fmt: str, daemon_down: bool, tmp_path: Path) -> None:
    """theia's `clearState`, sibyl's `/reset`: what was there is in the trash, and the new chat is all there is."""
    house = House(RealFileSystem(), str(tmp_path / "h"), fmt)
    daemon, system = Daemon(house), System(fmt, house)
    await daemon.start()
    system.say()
    assert await daemon.texts() == ["theirs 1"]
    await daemon.append(save=True)
    system.load()
    system.clear_and_say()
    if daemon_down:
        await daemon.start()
    assert await daemon.texts() == ["theirs 2"]
    assert "ours 0" in await daemon.in_trash()
    await daemon.append(save=True)
    assert await daemon.texts() == ["theirs 2", "ours 1"]


@pytest.mark.parametrize("fmt", WRITERS)
async def test_7_an_old_copy_gets_back_what_it_lacks(fmt: str, tmp_path: Path) -> None:
    """Only messages of ours are missing, at the end. Where its own are missing there, too, somebody cut them."""
    house = House(RealFileSystem(), str(tmp_path / "h"), fmt)
    daemon, system = Daemon(house), System(fmt, house)
    await daemon.start()
    system.say()
    system.say()
    await daemon.append(save=True)
    system.say()
    assert sorted(await daemon.texts()) == ["ours 0", "theirs 1", "theirs 2", "theirs 3"]
    await daemon.append(save=True)
    system.shorten(1)
    assert await daemon.texts() == ["theirs 1"]
    assert {"ours 0", "ours 1"} <= await daemon.in_trash()


@pytest.mark.parametrize("daemon_down", [False, True])
@pytest.mark.parametrize("ours", [1, 3])
async def test_8_amacs_appends_to_what_it_has_in_memory(ours: int, daemon_down: bool, tmp_path: Path) -> None:
    """Emacs has the file in a buffer, the daemon saves exchanges, Emacs saves its buffer with one more: all of them are there."""
    house = House(RealFileSystem(), str(tmp_path / "h"), "amacs")
    daemon, system = Daemon(house), System("amacs", house)
    await daemon.start()
    system.file.write_text(_tick("1|theirs 1", "2026-01-11T14:30:00Z"))
    await daemon.append(save=False)
    await daemon.append(save=True)
    buffer = system.file.read_text()
    for _ in range(ours):
        await daemon.append(save=False, role="user")
        await daemon.append(save=True)
    if daemon_down:
        await daemon.start()
    system.file.write_text(buffer + _tick("3|theirs 2", "2026-01-11T14:40:00Z"))
    there = await daemon.texts()
    assert set(daemon.acknowledged) | {"theirs 1", "answer to theirs 1", "theirs 2", "answer to theirs 2"} == set(there)
    assert len(there) == len(set(there))
    await daemon.start()  # before the file has them again
    assert await daemon.texts() == there
    await daemon.store.save(SESSION)
    assert all(text in system.file.read_text() for text in there if text != "ours 0" and text != "ours 1")
    await daemon.start()
    assert await daemon.texts() == there
    system.file.write_text("")
    assert await daemon.texts() == ["ours 0", "ours 1"] or not await daemon.texts()
    assert set(daemon.acknowledged) - {"ours 0", "ours 1"} <= await daemon.in_trash()


async def test_8_half_an_exchange_that_is_missing_is_an_edit(tmp_path: Path) -> None:
    """A turn of ours that somebody took out of the last exchange does not come back."""
    house = House(RealFileSystem(), str(tmp_path / "h"), "amacs")
    daemon, system = Daemon(house), System("amacs", house)
    await daemon.start()
    await daemon.append(save=False, role="user")
    await daemon.append(save=True)
    raw = system.file.read_text()
    system.file.write_text(raw[: raw.index("** Agent")])
    assert await daemon.texts() == ["ours 0"]
    assert "ours 1" in await daemon.in_trash()
