"""The daemon's core in a simulated world: the real service, store, auto-save and journal, on a fake disk, clock and
connections. One seed decides everything: who does what when, how long every call of the disk takes, what fails, and when the
machine dies.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from sessiond.daemon.upkeep import Upkeep
from sessiond.formats import registry
from sessiond.journal.replay import replay
from sessiond.journal.segments import Segments
from sessiond.journal.writer import JournalWriter
from sessiond.limits import Limits
from sessiond.service.sessions import Service
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.trash import Trash
from tests.fakes.crashfs import CrashFS
from tests.fakes.index import FakeIndex
from tests.fakes.wire_service import WireService
from tests.simulation.loop import SimLoop

HOME = "/home"
LIMITS = Limits(
    segment_bytes=4000, journal_bytes=9000, reserve_bytes=512, settle_s=0.0, idle_session_s=3.0, empty_session_s=1000.0,
    retained_changes=8, glanced_file_bytes=1, glanced_end_bytes=600,
)  # fmt: skip


class SimWriter(JournalWriter):
    """The real writer, with a task in its thread's place: it takes what waits after a while, and tells after another."""

    def __init__(self, segments: Segments, limits: Limits, rng: random.Random) -> None:
        super().__init__(segments, limits)
        self._rng = rng
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._go(), name="journal")

    async def _go(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue.qsize():
                await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.02)))
                batch, order = self._take()
                if batch:
                    self._write(batch)
                if order is not None:
                    self._obey(order)
                self._tell_state()

    def _hand_over(self, entry: Any, on_durable: Any = None) -> Any:
        future = super()._hand_over(entry, on_durable)
        self._wake.set()
        return future

    def _order(self, call: Any) -> Any:
        future = super()._order(call)
        self._wake.set()
        return future

    def note_saved(self, store: str, session: str, seq: int) -> None:
        super().note_saved(store, session, seq)
        self._wake.set()


class World:
    """`boot` makes a daemon on the disk as it is; `die` ends it as a kill (the page cache stays) or as a power failure."""

    def __init__(self, seed: str, fmt: str = "jsonl") -> None:
        self.rng = random.Random(seed)
        self.fmt = registry.get(fmt)
        self.fs = CrashFS(seed=self.rng.randrange(2**31))
        self.wall_ms = 1_768_141_822_000
        self._time = 1000.0
        self.loop: SimLoop
        self.service: Service
        self.store: FolderStore
        self.journal: SimWriter
        self.deaths = 0

    # A clock for the parts

    def now_ms(self) -> int:
        return self.wall_ms + int(self.loop.time() * 1000)

    def monotonic(self) -> float:
        return self.loop.time()

    # Life

    def boot(self) -> bool:
        self.loop = SimLoop(self._time, lambda: self.fs.crashed)
        asyncio.set_event_loop(self.loop)
        return self.loop.play(self._boot())

    async def _boot(self) -> None:
        fs, rng = self.fs, self.rng
        for name in ("sessions", "journal", "trash/default"):
            fs.make_dirs(f"{HOME}/{name}")
        segments = Segments(fs, f"{HOME}/journal", LIMITS, lambda: 0.0)
        contents = segments.recover(lambda: b"0123456789abcdef")
        assert all(damage.torn for damage in contents.damage), contents.damage
        self.journal = SimWriter(segments, LIMITS, rng)
        self.store = FolderStore(
            name="default", fmt=self.fmt, files=StoreFiles(fs, f"{HOME}/sessions", self.fmt),
            trash=Trash(fs, f"{HOME}/trash/default"), journal=self.journal, clock=self, limits=LIMITS, run=self._on_disk,
        )  # fmt: skip
        kept = replay(record for _, record in contents.records)
        self.store.expect({key[1]: [record.entry.payload for record in some] for key, some in kept.items()})
        await self.store.open()
        self.service = WireService(
            stores={"default": self.store}, index=FakeIndex(), clock=self, limits=LIMITS, interval_s=1.0, idle_s=0.1
        )
        await self.service.start()
        Upkeep(self.journal, self.service.open_sessions, LIMITS).start()

    async def _on_disk(self, function: Any, *args: Any) -> Any:
        await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.001, 0.03)))
        result = function(*args)
        await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.001, 0.03)))
        return result

    def die(self) -> None:
        """What is in memory is gone; of what was not synced the disk keeps what it likes, or all of it after a kill."""
        self.deaths += 1
        self.fs.crashed = True
        self._time = self.loop.time()
        self.loop.bury()
        self.fs.heal()
        self.fs.capacity = None
        if self.rng.random() < 0.3:
            self.fs.revive()
        else:
            self.fs = self.rng.choice(list(self.fs.crash_images(limit=6)))
