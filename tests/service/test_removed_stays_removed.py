"""What a person removes here of another tool's sessions does not come back by itself, whatever happens to the daemon, the
source and the disk: random lives against a model of what must be here.

A life grows sources, follows them, removes and edits sessions and messages, renames the sources' folders, kills the daemon,
makes copies of its home and goes back to one, loses the ledger, locks it, restores from the trash, and imports on purpose.
The real follower's part of the service does the following; a kill leaves the home as it is on the disk at that moment.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import SessiondError, Unavailable
from sessiond.service import source_ledger_file
from tests.fakes.peer import FakePeer
from tests.service.test_intake import Served, record
from tests.suite.explore import seeds

STEPS = 30
SESSIONS = [f"1111111{n}-2222-3333-4444-555555555555" for n in range(3)]


class Copy:
    """The home as it was, and what was removed by then."""

    def __init__(self, path: Path, life: Life) -> None:
        self.path = path
        self.removed = copy.deepcopy(life.removed)
        self.messages = copy.deepcopy(life.messages)


class Life:
    def __init__(self, tmp: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tmp = tmp
        self.homes = 0
        self.folder = tmp / "projects" / "p0"
        self.folder.mkdir(parents=True)
        self.source: dict[str, int] = {}
        """Session -> how many records its file has."""
        self.removed: set[str] = set()
        self.for_ever: set[str] = set()
        """Those of them that are not in the trash."""
        self.messages: dict[str, set[int]] = {session: set() for session in SESSIONS}
        """Session -> records that were removed here."""
        self.copies: list[Copy] = []
        self.done: list[str] = []
        self.served: Served

    # The daemon

    @property
    def home(self) -> Path:
        return self.tmp / f"home{self.homes}"

    async def start(self) -> None:
        self.served = await Served(self.home, str(self.home / "imports.db")).start()

    async def image(self, target: Path) -> None:
        shutil.copytree(self.home, target)

    async def begin_at(self, image: Path) -> None:
        old = self.served
        self.homes += 1
        shutil.copytree(image, self.home)
        await old.close()  # what it writes now was never on the disk
        await self.start()

    async def kill(self) -> None:
        image = self.tmp / "image"
        await self.image(image)
        await self.begin_at(image)
        shutil.rmtree(image)

    async def restart(self) -> None:
        await self.served.restart()

    async def keep_copy(self) -> None:
        path = self.tmp / f"copy{len(self.copies)}"
        await self.image(path)
        self.copies.append(Copy(path, self))

    async def go_back(self) -> None:
        if self.copies:
            chosen = self.chance.choice(self.copies)
            await self.begin_at(chosen.path)
            self.removed, self.messages = copy.deepcopy(chosen.removed), copy.deepcopy(chosen.messages)

    async def lose_ledger(self) -> None:
        """Then what the trash does not know comes back: messages, and sessions that were deleted for ever."""
        if self.for_ever or any(self.messages.values()):
            return
        await self.served.close()
        (self.home / "imports.db").unlink(missing_ok=True)
        await self.start()

    async def locked(self) -> None:
        """Another program has the ledger to itself while the sources are looked at."""
        if not (self.home / "imports.db").exists():
            return
        other = sqlite3.connect(self.home / "imports.db", isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            await self.grow()
            await self.follow()
        finally:
            other.close()

    # The source

    async def grow(self) -> None:
        session = self.chance.choice(SESSIONS)
        count = self.source.get(session, 0)
        more = self.chance.randrange(1, 4)
        with self.path(session).open("a") as file:
            file.writelines(record(n, session) for n in range(count + 1, count + more + 1))
        self.source[session] = count + more

    async def rename(self) -> None:
        self.folder = self.folder.rename(self.folder.with_name(f"p{self.chance.randrange(10**9)}"))

    def path(self, session: str) -> Path:
        return self.folder / f"{session}.jsonl"

    async def follow(self) -> None:
        """As the follower does it; what it cannot do now it tries again later."""
        following = await self.served.service.transfer.followed(self.served.service.stores["default"])
        try:
            if self.chance.random() < 0.5:
                await self._gone(following)
            paths = [str(path) for path in self.folder.iterdir()]
            for path in await following.behind(paths):
                try:
                    await following.bring(path, "claude-code")
                except Unavailable:
                    continue
            await self._gone(following)
        except Unavailable:
            return

    async def _gone(self, following: Any) -> None:
        await following.gone([path for path in await following.known() if not Path(path).exists()])

    # People

    async def listed(self) -> dict[str, dict[str, Any]]:
        found = [*(await self.served.service.list())["sessions"]]
        return {info["sessionId"].removeprefix("claude-code-"): info for info in found}

    async def here(self, session: str) -> list[int]:
        page = await self.served.service.read(f"claude-code-{session}")
        return [int(one["content"].split()[1]) for one in page["messages"]]

    async def some(self) -> str | None:
        there = sorted(await self.listed())
        return self.chance.choice(there) if there else None

    async def delete(self) -> None:
        session = await self.some()
        if session is not None:
            permanent = self.chance.random() < 0.3
            await self.served.service.delete(f"claude-code-{session}", permanent=permanent)
            self.removed.add(session)
            if permanent:
                self.for_ever.add(session)

    async def truncate(self) -> None:
        session = await self.some()
        if session is None:
            return
        wire_id = f"claude-code-{session}"
        messages = (await self.served.service.read(wire_id))["messages"]
        if self.chance.random() < 0.2:
            await self.served.service.clear(FakePeer(), wire_id)
            kept = 0
        else:
            kept = self.chance.randrange(len(messages) + 1)
            after = messages[kept - 1]["seq"] if kept else 0
            await self.served.service.truncate(FakePeer(), wire_id, after)
        self.messages[session] |= {int(one["content"].split()[1]) for one in messages[kept:]}

    async def edit(self) -> None:
        """A person takes a message out of the session's file, or removes the file, with other means."""
        session = await self.some()
        if session is None:
            return
        wire_id = f"claude-code-{session}"
        await self.served.service.save(wire_id)
        store = self.served.service.stores["default"]
        path = Path(store.file_path(wire_id))
        if self.chance.random() < 0.3:
            path.unlink()
            self.removed.add(session)
        else:
            lines = path.read_text().splitlines(keepends=True)
            spoken = [n for n, line in enumerate(lines) if "content" in json.loads(line)]
            if not spoken:
                return
            chosen = self.chance.choice(spoken)
            self.messages[session].add(int(json.loads(lines.pop(chosen))["content"].split()[1]))
            path.write_text("".join(lines))
        await self.served.service.open_sessions.look_outside(store, wire_id)

    async def restore(self) -> None:
        kept = sorted(self.removed - self.for_ever)
        if kept:
            session = self.chance.choice(kept)
            try:
                await self.served.service.restore(FakePeer(), f"claude-code-{session}")
            except SessiondError:  # it is not in the trash of the copy that we went back to
                return
            self.removed.discard(session)

    async def import_(self) -> None:
        """On purpose, after the source has grown: everything that it has comes back."""
        if not self.source:
            return
        session = self.chance.choice(sorted(self.source))
        self.source[session] += 1
        with self.path(session).open("a") as file:
            file.write(record(self.source[session], session))
        await self.served.bring(self.path(session))
        self.removed.discard(session)
        self.for_ever.discard(session)
        self.messages[session].clear()

    # What must be here

    async def check(self) -> None:
        await self.follow()
        there = await self.listed()
        for session, count in self.source.items():
            if session in self.removed:
                assert session not in there, (session, "came back", " ".join(self.done))
                continue
            assert session in there, (session, "is not here", " ".join(self.done))
            expected = [n for n in range(1, count + 1) if n not in self.messages[session]]
            assert await self.here(session) == expected, (session, " ".join(self.done))
            source = there[session]["metadata"]["source"]
            assert (source["path"], source.get("gone")) == (str(self.path(session)), None), " ".join(self.done)

    async def step(self) -> None:
        acts: list[Callable[[], Any]] = [
            *[self.grow] * 4, *[self.follow] * 3, *[self.delete] * 2, *[self.truncate] * 2, self.edit, self.rename, self.kill,
            self.kill, self.restart, self.keep_copy, self.go_back, self.lose_ledger, self.locked, self.restore, self.import_,
        ]  # fmt: skip
        act = self.chance.choice(acts)
        self.done.append(act.__name__)
        await act()
        if self.chance.random() < 0.4:
            await self.check()


@pytest.mark.parametrize("seed", seeds(few=30, usual=1000))
async def test_what_was_removed_stays_removed(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_ledger_file, "_PATIENCE_S", 0.05)
    life = Life(tmp_path, seed)
    await life.start()
    try:
        for _ in range(STEPS):
            await life.step()
        await life.check()
    finally:
        await life.served.close()
