"""Random histories of a hub and replicas: whatever breaks, everything that was said is there once, in an order that all agree on."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sessiond.errors import Indeterminate, Unavailable
from sessiond.hub.keys import new_key
from sessiond.hub.port import Hub
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.sealing import SealedHub, Sealer
from sessiond.hub.verifying import verify
from tests.hub.postgres import Server
from tests.hub.proxy import Proxy
from tests.hub.replica import Replica
from tests.hub.stores import MEMBERS, Team
from tests.suite.explore import seeds

HISTORIES = seeds(few=3, usual=12)
REPLICAS = 3
STEPS = 25


@pytest.fixture(scope="module")
def doomed() -> Iterator[Server]:
    """A server that every history kills."""
    made = Server("wheel").start()
    yield made
    made.close()


class History:
    """One random history. Its seed decides what happens; when, the machine does."""

    def __init__(self, seed: int, server: Server) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.loses = seed % 3 == 2
        self.key = new_key() if seed % 2 else None
        self.names = [f"s{number}" for number in range(self.chance.randint(1, 4))]
        self.replicas: list[Replica] = []
        self.proxies: list[Proxy] = []
        self.hubs: list[Hub] = []
        self.backup: Path | None = None
        self.over = False

    async def run(self, team: Team) -> None:
        for number in range(REPLICAS):
            proxy = await Proxy(self.server.port).start()
            self.proxies.append(proxy)
            name = f"{self.chance.getrandbits(128):032x}"
            hub = self._hub(team, MEMBERS[number % 2], name, proxy.port)
            self.hubs.append(hub)
            self.replicas.append(Replica(name, hub, random.Random(self.chance.random()), may_lose=self.loses))
        living = [asyncio.ensure_future(self._live(one)) for one in self.replicas]
        breaking = asyncio.ensure_future(self._break())
        try:
            await asyncio.gather(*living)
        finally:
            self.over = True  # a server that is being started has to be started
            for task in living:
                task.cancel()
            await asyncio.gather(*living, return_exceptions=True)
            await breaking
        await self._heal()
        await self._settle()
        await self._check(team)

    def _hub(self, team: Team, role: str, name: str, port: int) -> Hub:
        key = self.key
        bare = PostgresHub(team.address(role, port=port), name, sealed=key is not None)
        return bare if key is None else SealedHub(bare, Sealer(lambda: [key], "the key"), name)

    async def _live(self, replica: Replica) -> None:
        chance = random.Random(self.chance.random())
        for _ in range(STEPS):
            session = chance.choice(self.names)
            replica.say(session)
            try:
                match chance.choice(("push", "push", "push", "resend", "fetch", "list", "ask")):
                    case "push":
                        await replica.push(session)
                    case "resend":
                        await replica.resend()
                    case "fetch":
                        await replica.synchronise(session)
                    case "list":
                        await replica.read_list()
                    case "ask":
                        await replica.ask()
            except (Unavailable, Indeterminate):
                await asyncio.sleep(chance.random() * 0.2)

    async def _break(self) -> None:
        """Break something, again and again."""
        while not self.over:
            await asyncio.sleep(self.chance.random() * 0.15)
            proxy = self.chance.choice(self.proxies)
            match self.chance.choice(("cut", "cut", "deaf", "slow", "end", "end", "kill", "restore")):
                case "cut":
                    proxy.cut()
                case "deaf":
                    proxy.go_deaf()
                    await asyncio.sleep(0.1)
                    proxy.cut()  # a daemon would wait for HUB_ANSWER_S
                case "slow":
                    proxy.delay_s = self.chance.choice((0, 0, 0.005, 0.02))
                case "end":
                    await self._end_some_backend()
                case "kill":
                    await self._again(self.server.kill)
                case "restore":
                    await self._backup_or_restore()

    async def _end_some_backend(self) -> None:
        await asyncio.to_thread(
            self.server.sql,
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE usename IN ('ada', 'bob')"
            " ORDER BY random() LIMIT 2) x",
        )

    async def _again(self, stop) -> None:
        await asyncio.to_thread(stop)
        await asyncio.to_thread(self.server.start)

    async def _backup_or_restore(self) -> None:
        if not self.loses:
            return
        if self.backup is None:
            await asyncio.to_thread(self.server.stop)
            self.backup = Path(tempfile.mkdtemp(prefix="pg-backup-")) / "data"
            await asyncio.to_thread(self.server.copy_to, self.backup)
        else:
            await asyncio.to_thread(self.server.kill)
            await asyncio.to_thread(self.server.restore_from, self.backup)
            shutil.rmtree(self.backup.parent)
            self.backup = None
        await asyncio.to_thread(self.server.start)

    async def _heal(self) -> None:
        if self.server.process is None:
            await asyncio.to_thread(self.server.start)
        for proxy in self.proxies:
            proxy.delay_s = 0
            proxy.cut()

    async def _settle(self) -> None:
        """With the links up, until nobody has anything new."""
        for _ in range(50):
            before = [(dict(one.own), {name: one.head(name) for name in one.sessions}) for one in self.replicas]
            for one in self.replicas:
                for attempt in range(5):
                    try:
                        await one.ask()
                        for name in self.names:
                            await one.push(name)
                        await one.read_list()
                        for name in self.names:
                            await one.synchronise(name)
                        break
                    except (Unavailable, Indeterminate):
                        assert attempt < 4
            if before == [(dict(one.own), {name: one.head(name) for name in one.sessions}) for one in self.replicas]:
                return
        raise AssertionError("they do not come to rest")

    async def _check(self, team: Team) -> None:
        first = self.replicas[0]
        for one in self.replicas:
            assert not any(one.own.values()) and not one.unknown
            assert {name: whole for name, whole in one.sessions.items() if whole} == {
                name: whole for name, whole in first.sessions.items() if whole
            }
        names = [(one.replica, one.index) for whole in first.sessions.values() for one in whole]
        assert len(names) == len(set(names))
        for one in self.replicas:
            assert one.acknowledged == {index for name, index in names if name == one.name}
        for name, whole in first.sessions.items():
            assert [one.number for one in whole] == list(range(len(whole)))
            ids = [one.id for one in whole if one.id is not None]
            assert len(ids) == len(set(ids))
            for replica in self.replicas:
                indices = [one.index for one in whole if one.replica == replica.name]
                assert indices == sorted(indices), name
        report = await verify(self.hubs[0], {name: first.head(name) for name, whole in first.sessions.items() if whole})
        assert report.differences == []
        assert report.operations == len(names)
        counted = await asyncio.to_thread(self.server.sql, "SELECT count(*) FROM sessiond.operations", team.database)
        assert int(counted) == len(names)

    async def close(self) -> None:
        for hub in self.hubs:
            await hub.close()
        for proxy in self.proxies:
            await proxy.close()
        if self.backup is not None:
            shutil.rmtree(self.backup.parent)


@pytest.fixture
async def histories(doomed: Server) -> AsyncIterator[list[History]]:
    made: list[History] = []
    yield made
    for one in made:
        await one.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", HISTORIES)
async def test_a_random_history_ends_well(doomed: Server, histories: list[History], seed: int) -> None:
    """Links are cut, go deaf and are slow; backends are ended; the server is killed with -9, and every third time restored from an
    older backup. In the end all have the same: each operation once, numbers without a gap, each replica's in its own order.
    """
    if doomed.process is None:
        doomed.start()
    history = History(seed, doomed)
    histories.append(history)
    team = await Team.make(doomed, f"history_{seed}", sealed=history.key is not None)
    await history.run(team)
