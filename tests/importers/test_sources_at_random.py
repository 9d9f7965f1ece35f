"""Many tools write at the same time while imports run, some of them at once: in the end the daemon has what one import of the
whole has.

Each life has a folder with sources of some tools. Their files grow by records, are cut in the middle of one, and are looked at
by imports of the folder, of one file, by followers, by reports, and by several of these at the same time."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from older_sources import OLDER
from sources import FILES

from tests.service.test_follow_equals_import import shown
from tests.service.test_intake import Served
from tests.suite.explore import seeds

FOUND = (10, 22, 42, 140)
"""Lives that failed: a journal that grew unnoticed, a call that was completed, and two imports that both wrote a session again."""
STEPS = 12
WRITTEN = 1_700_000_000
GROWING = (".jsonl", ".ndjson", ".md")
KEPT_APART = {
    "copilot-chat log": "a request that its log takes back stays, marked, once it was seen",
    "gptel": "Emacs saves a chat whole",
}
"""Where what was seen on the way shows in the end, and why."""
WRITERS: dict[str, Callable[[Path], Path]] = {
    name: write
    for name, write in ({name: write for name, (_, write) in FILES.items()} | OLDER).items()
    if name not in KEPT_APART
}


class Source:
    """One tool's folder, which grows. `states`: for each of its files, how much of it is there."""

    def __init__(self, folder: Path, name: str, chance: random.Random) -> None:
        WRITERS[name](folder)
        self._chance = chance
        self._whole = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        self.growing = [path for path in self._whole if path.suffix in GROWING]
        self._there = dict.fromkeys(self.growing, 0)
        for path in self.growing:
            path.unlink()
        self.files = sorted(self._whole)
        self._touch()

    def grow(self) -> None:
        """Up to a random record of one file, or into the middle of one."""
        if not self.growing:
            return
        path = self._chance.choice(self.growing)
        whole, start = self._whole[path], self._there[path]
        ends = [at + 1 for at in range(start, len(whole)) if whole[at] == 10]
        if not ends:
            return
        end = self._chance.choice(ends[:3])
        if self._chance.random() < 0.3:
            end = self._chance.randrange(start, end)
        self._write(path, end)

    def finish(self) -> None:
        for path in self.growing:
            self._write(path, len(self._whole[path]))

    def _write(self, path: Path, end: int) -> None:
        with path.open("ab") as file:
            file.write(self._whole[path][self._there[path] : end])
        self._there[path] = end
        self._touch()

    def _touch(self) -> None:
        """Where a source has no times, that of its last write stands in, which differs from look to look."""
        for path in self.files:
            if path.exists():
                os.utime(path, (WRITTEN, WRITTEN))


async def look(served: Served, folder: Path, sources: list[Source], chance: random.Random) -> None:
    """One to three looks at the same time."""
    store = served.service.stores["default"]

    async def follow(path: Path) -> None:
        await served.service.transfer.import_(
            str(path), store, format=None, since=None, dry_run=False, progress=None, followed=True
        )

    async def one() -> None:
        files = [path for source in sources for path in source.files if path.exists()]
        path = chance.choice([folder, *files]) if files else folder
        match chance.randrange(5):
            case 0:
                await served.bring(path, dry_run=True, report=True)
            case 1 | 2:
                await follow(path)
            case _:
                await served.bring(path)

    await asyncio.gather(*(one() for _ in range(chance.choice((1, 1, 2, 3)))))


@pytest.mark.parametrize("seed", sorted({*FOUND, *seeds(few=2, usual=6)}))
async def test_whatever_was_looked_at_meanwhile(tmp_path: Path, seed: int) -> None:
    """The sessions, their texts, their order and their fields are those of one import of everything."""
    chance = random.Random(seed)
    folder = tmp_path / "sources"
    # One of each tool: two of the same tool's may be the same session.
    tools = {name.split()[0]: name for name in chance.sample(sorted(WRITERS), chance.randint(1, 5))}
    names = list(tools.values())
    sources = []
    for nth, name in enumerate(names):
        (folder / f"{nth} {name}").mkdir(parents=True)
        sources.append(Source(folder / f"{nth} {name}", name, chance))
    served = await Served(tmp_path / "following", str(tmp_path / "ledger.db")).start()
    for _ in range(STEPS):
        for _ in range(chance.randint(0, 4)):
            chance.choice(sources).grow()
        await look(served, folder, sources, chance)
        if chance.random() < 0.1:
            await served.restart()
    for source in sources:
        source.finish()
    await served.bring(folder)
    once = await Served(tmp_path / "once").start()
    await once.bring(folder)
    expected, found = await shown(once), await shown(served)
    await once.close()
    await served.close()
    assert found.keys() == expected.keys(), names
    for wire_id, exports in expected.items():
        for fmt, text in exports.items():
            assert found[wire_id][fmt].split("\n") == text.split("\n"), (names, wire_id, fmt)
