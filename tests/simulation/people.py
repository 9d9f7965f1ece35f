"""The inhabitants of a `World`: writers with a model of what must be there, and watchers that must miss nothing."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from unittest import mock

from sessiond.errors import Conflict, Indeterminate, ReadOnly, SessionNotFound
from tests.fakes.peer import FakePeer
from tests.simulation.world import World

SHARED = "shared"


class Watcher:
    """Has the shared session open and reads what it is told; comes, goes, stalls."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._peer: FakePeer | None = None
        self._at = 0

    async def step(self) -> None:
        service = self._world.service
        if self._peer is None:
            self._peer = FakePeer("watcher")
            self._at = (await service.open(self._peer, SHARED, since=0))["session"]["seq"]
        elif self._peer.full:
            self._peer.full = False
            service.drained(self._peer)
        else:
            self._look(self._peer)
            chance = self._rng.random()
            if chance < 0.1:
                service.disconnected(self._peer)
                self._peer = None
            elif chance < 0.3:
                self._peer.full = True

    def _look(self, peer: FakePeer) -> None:
        got, peer.got = peer.got, []
        for method, params in got:
            if method == "session/resync":
                self._at = params["seq"]
            elif method == "session/changed":
                for change in params["changes"]:
                    for one in change.get("messages", [change]):
                        assert one["seq"] == self._at + 1, f"told {one['seq']} after {self._at}"
                        self._at = one["seq"]

    def forget(self) -> None:
        self._peer = None


class SharedWriter:
    """Appends to the shared session and streams into it; what was not answered is sent again."""

    def __init__(self, world: World, number: int, rng: random.Random, known: Known) -> None:
        self._world = world
        self._rng = rng
        self._number = number
        self._known = known
        self._made = 0
        self._open: list[dict[str, Any]] = []
        self._peer = FakePeer(f"writer {number}")

    async def step(self) -> None:
        if self._rng.random() < 0.1:
            self._world.service.disconnected(self._peer)
            self._peer = FakePeer(f"writer {self._number}")
        if not self._open:
            for _ in range(self._rng.choice((1, 1, 2))):
                self._made += 1
                text = f"{self._number}-{self._made}"
                self._open.append({"id": text, "role": "user", "content": text + "z" * self._rng.choice((0, 30, 300))})
        batch = self._open
        self._known.sent(batch)
        try:
            answer = await self._world.service.append(self._peer, SHARED, [dict(one) for one in batch])
        except (ReadOnly, Indeterminate):
            return
        for one in answer["messages"]:
            self._known.acked(one["id"], one["seq"])
        self._open = []


class Known:
    """Of the shared session: what must be there."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.seqs: dict[str, int] = {}

    def sent(self, batch: list[dict[str, Any]]) -> None:
        self.texts.update({one["id"]: one["content"] for one in batch})

    def acked(self, message_id: str, seq: int) -> None:
        assert self.seqs.setdefault(message_id, seq) == seq, "a retry is answered with the same seq"

    def check(self, messages: list[dict[str, Any]]) -> None:
        found = {one["id"]: one for one in messages}
        assert len(found) == len(messages), "doubled"
        assert [one["seq"] for one in messages] == sorted({one["seq"] for one in messages})
        for message_id, seq in self.seqs.items():
            assert message_id in found, f"{message_id} was acknowledged and is lost"
            assert found[message_id]["seq"] == seq
        for message_id, one in found.items():
            assert one["content"] == self.texts[message_id], "nobody wrote that"
            self.seqs[message_id] = one["seq"]  # served once, there for ever


class Owner:
    """Has a separate session and does everything to it. `possible`: what may be in it, most of the time one thing."""

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self.name = name
        self._made = 0
        self.possible: list[list[str] | None] = [None]
        """Contents; None: there is no such session."""
        self._trashed: list[str] | None = None
        """What was deleted, or may have been, and must come back."""
        self._indeterminate = False

    async def step(self) -> None:
        service, peer, rng = self._world.service, FakePeer(self.name), self._rng
        before = self.possible[-1]
        if len(self.possible) > 1:
            await self.settle(certain=not self._indeterminate)
            return
        if before is None and self._trashed is not None:
            await self._try(self._trashed, lambda: service.restore(peer, self.name), whole=False)
            return
        if before is None:
            text = self._text()
            await self._try(
                [text],
                lambda: service.new(peer, session_id=self.name, name="n", messages=[{"role": "user", "content": text}]),
            )
            return
        action = rng.choice(("append", "append", "append", "truncate", "clear", "delete", "save", "rename", "state"))
        if action == "append":
            texts = [self._text() for _ in range(rng.choice((1, 2, 3)))]
            messages = [{"role": "user", "content": text} for text in texts]
            await self._try(before + texts, lambda: service.append(peer, self.name, messages))
        elif action == "truncate" and before:
            keep = rng.randrange(len(before))
            page = await service.read(self.name, last=1000)
            after = page["messages"][keep - 1]["seq"] if keep else 0
            await self._try(before[:keep], lambda: service.truncate(peer, self.name, after))
        elif action == "clear":
            await self._try([], lambda: service.clear(peer, self.name))
        elif action == "delete" and before:
            self._trashed = before
            await self._try(None, lambda: service.delete(self.name), whole=False)
        elif action == "save":
            await self._try(before, lambda: service.save(self.name))
        elif action == "rename":
            await self._try(before, lambda: service.update(peer, self.name, {"name": self._text()}))
        elif action == "state":
            await self._try(before, lambda: service.state_set(peer, self.name, {"k": self._text()}))
        if rng.random() < 0.5:
            service.disconnected(peer)

    def _text(self) -> str:
        self._made += 1
        return f"{self.name}-{self._made}"

    async def _try(self, after: list[str] | None, request: Any, *, whole: bool = True) -> None:
        """Until it is answered both may be. `whole`: when it is refused, nothing of it is there; a delete or a restore that the
        disk stopped halfway may be done or not.
        """
        before = self.possible[-1]
        self.possible = [before, after]
        try:
            await request()
        except ReadOnly:
            if whole:
                self.possible = [before]
        except Indeterminate:
            self._indeterminate = True
        else:
            self.possible = [after]

    async def settle(self, *, certain: bool = True) -> None:
        """Ask what it is now. What was indeterminate is so until the next start."""
        try:
            found: list[str] | None = [
                one["content"] for one in (await self._world.service.read(self.name, last=1000))["messages"]
            ]
        except SessionNotFound:
            found = None
        assert found in self.possible, f"{self.name}: {found} is none of {self.possible}"
        if not certain:
            return
        self._indeterminate = False
        if found is not None and self._trashed is not None:
            # A delete that the disk stopped: it is certain that the session is there when its file is.
            try:
                await self._world.service.save(self.name)
            except ReadOnly:
                return
            self._trashed = None
        self.possible = [found]


class Town:
    """Everybody, and the fates that befall them."""

    def __init__(self, seed: str, fmt: str = "jsonl") -> None:
        self.world = World(seed, fmt)
        self.rng = random.Random(f"{seed} town")
        self.known = Known()
        make = self._rng_of
        self.watchers = [Watcher(self.world, make(f"watcher {n}")) for n in range(2)]
        self.writers = [SharedWriter(self.world, n, make(f"writer {n}"), self.known) for n in range(3)]
        self.owners = [Owner(self.world, f"own{n}", make(f"owner {n}")) for n in range(2)]
        self.steps = 0

    def _rng_of(self, name: str) -> random.Random:
        return random.Random(f"{self.rng.random()} {name}")

    def boot(self) -> None:
        """Until a daemon has come up, and everything in it is as it must be."""
        while not (self.world.boot() and self.world.loop.play(self._begin())):
            self.world.die()

    async def _begin(self) -> None:
        try:
            shared = await self._all()
        except SessionNotFound:
            assert not self.known.seqs, "the shared session is lost"
            await self.world.service.new(None, session_id=SHARED, name="n")
            shared = []
        self.known.check(shared)
        for owner in self.owners:
            await owner.settle()

    async def _all(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        more = True
        while more:
            since = messages[-1]["seq"] if messages else 0
            page = await self.world.service.read(SHARED, since=since, limit=1000)
            messages += page["messages"]
            more = page["hasMore"]
        return messages

    def live(self, seconds: float) -> bool:
        """Everybody does something now and then. False: it ended before."""
        return self.world.loop.play(self._live(seconds))

    async def _live(self, seconds: float) -> None:
        end = self.world.loop.time() + seconds
        everybody: list[Watcher | SharedWriter | Owner] = [*self.watchers, *self.writers, *self.owners]
        await asyncio.gather(*(self._life(one, end) for one in everybody))

    async def _life(self, one: Watcher | SharedWriter | Owner, end: float) -> None:
        while self.world.loop.time() < end:
            await asyncio.sleep(self.rng.choice((0.0, 0.01, 0.05, 0.3)))
            try:
                await one.step()
            except Conflict as error:
                raise AssertionError(f"nobody else wrote: {error}") from error
            self.steps += 1

    def die(self) -> None:
        self.world.die()
        for watcher in self.watchers:
            watcher.forget()

    def misfortune(self) -> None:
        """Arm one: a crash at a step to come, a call that will fail, a disk that is nearly full, a clock that jumps."""
        rng, fs = self.rng, self.world.fs
        kind = rng.choice(("crash", "crash", "fault", "fault", "full", "clock", "none"))
        if kind == "crash":
            fs.crash_at = fs.steps + rng.choice((rng.randrange(20), rng.randrange(400)))
        elif kind == "fault":
            step = rng.choice(("write", "sync", "sync_dir", "rename", "remove", "make", "link", "truncate"))
            fs.fail(
                step, rng.choice((5, 28)), skip=rng.randrange(30), times=rng.choice((1, 2)), written=rng.choice((0, 9))
            )
        elif kind == "full":
            fs.capacity = fs.used() + rng.randrange(4000)
        elif kind == "clock":
            self.world.wall_ms -= rng.randrange(10**9)

    def relief(self) -> None:
        self.world.fs.heal()
        self.world.fs.capacity = None

    def end(self) -> None:
        """Nothing of it lives on."""
        self.world.fs.crashed = True
        self.world.loop.bury()

    def finish(self) -> None:
        """One more start on a healthy disk: everything is there."""
        assert not self.world.loop.faults, self.world.loop.faults
        self.die()
        self.boot()


def story(seed: str, fmt: str, deaths: int) -> Town:
    """A life with so many ends. AssertionError where a promise was broken."""
    rng = random.Random(f"{seed} names")
    with mock.patch("secrets.token_hex", lambda size=8: rng.randbytes(size).hex()):  # it decides the order of names
        return _story(Town(seed, fmt), deaths)


def _story(town: Town, deaths: int) -> Town:
    town.boot()
    while town.world.deaths < deaths:
        town.misfortune()
        lived = town.live(town.rng.choice((0.5, 2.0, 5.0)))
        assert not town.world.loop.faults, town.world.loop.faults
        if not lived or town.rng.random() < 0.4:
            town.die()
            town.boot()
        elif town.rng.random() < 0.5:
            town.relief()
    town.finish()
    town.end()
    return town
