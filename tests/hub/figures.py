"""How fast a hub is, and how much room it takes: `python -m tests.hub.figures [--only NAME]`.

Each figure is beside a bare one: the same row lock, insert and NOTIFY in a function of a few lines, called by asyncpg. Text is English-like
words from a fixed list of a few thousand made-up ones, so it compresses no better than real text does.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable

import asyncpg

from sessiond.hub.bodies import operation
from sessiond.hub.port import NOTHING, Back, HeadHint, HubCursor, Push, Pushed, seed
from sessiond.hub.postgres import PostgresHub
from sessiond.model.changes import Appended, Created
from tests.hub.postgres import Server
from tests.hub.proxy import Proxy
from tests.hub.stores import Team

BARE = """
CREATE TABLE bare_sessions (id int PRIMARY KEY, head bigint NOT NULL);
CREATE TABLE bare (session int, number bigint, id text, replica uuid, index bigint, body bytea,
                   PRIMARY KEY (session, number), UNIQUE (session, id), UNIQUE (replica, index));
INSERT INTO bare_sessions SELECT n, 0 FROM generate_series(1, 100) n;
CREATE FUNCTION bare_push(s int, i text, r uuid, x bigint, b bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    SELECT head + 1 INTO n FROM bare_sessions WHERE id = s FOR UPDATE;
    INSERT INTO bare VALUES (s, n, i, r, x, b);
    UPDATE bare_sessions SET head = n WHERE id = s;
    PERFORM pg_notify('bare', s || ' ' || n);
    RETURN n;
END $$;
"""
AT = "2026-01-01T00:00:00.000Z"
_letters = random.Random(7)
WORDS = [
    "".join(_letters.choice("etaoinshrdlucmfwypvbgkq") for _ in range(_letters.randint(2, 10))) for _ in range(4000)
]


def text(chance: random.Random, length: int) -> str:
    """Words as often as words are: a few very often, most rarely."""
    found: list[str] = []
    size = 0
    while size < length:
        word = WORDS[min(int(chance.paretovariate(0.7)) - 1, len(WORDS) - 1)]
        found.append(word)
        size += len(word) + 1
    return " ".join(found)[:length]


class Writer:
    """Pushes messages to one session, each on top of the last."""

    def __init__(self, hub: PostgresHub, session: str, indices: Callable[[], int], chance: random.Random) -> None:
        self._hub, self._session, self._index, self._chance = hub, session, indices, chance
        self._last = Pushed(session, "stored", NOTHING, seed(session))

    async def begin(self) -> None:
        await self._push([operation(self._index(), Created(seq=0, at=AT, info={"name": self._session}))])

    async def say(self, length: int, many: int = 1) -> None:
        messages = []
        for _ in range(many):
            index = self._index()
            wire = {
                "id": f"01{index:024x}", "seq": 1, "role": self._chance.choice(("user", "assistant")),
                "content": text(self._chance, length), "timestamp": AT,
            }  # fmt: skip
            messages.append(operation(index, Appended(seq=1, at=AT, messages=[wire])))
        await self._push(messages)

    async def _push(self, operations: list) -> None:
        self._last = await self._hub.push(
            Push(self._session, self._last.head, self._last.digest, operations, b"listing")
        )
        assert self._last.outcome == "stored"


def counter() -> Callable[[], int]:
    box = [0]

    def following() -> int:
        box[0] += 1
        return box[0]

    return following


async def timed(work: Callable[[], Awaitable[object]], times: int) -> float:
    """The median in ms."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        await work()
        found.append(time.perf_counter() - begun)
    return statistics.median(found) * 1000


async def one_client(team: Team) -> None:
    """p50 of one append, beside the bare function."""
    team.server.sql(BARE, team.database)
    link = await asyncpg.connect(team.address("postgres").url)
    chance = random.Random(1)
    hub = team.hub()
    writer = Writer(hub, "one", counter(), chance)
    await writer.begin()
    index = counter()

    async def bare() -> None:
        number = index()
        await link.fetchval(
            "SELECT bare_push($1, $2, $3, $4, $5)", 1, f"01{number:024x}", "a" * 32, number, text(chance, 400).encode()
        )

    for _ in range(3):
        plain = await timed(bare, 300)
        ours = await timed(lambda: writer.say(400), 300)
        print(f"one client: push {ours:.2f} ms, bare {plain:.2f} ms, {ours / plain:.2f} x")
    await link.close()


async def many_clients(team: Team) -> None:
    """16 clients on two hubs, each waiting for its answer."""
    hubs = [team.hub("ada"), team.hub("bob")]
    indices = [counter(), counter()]
    writers = [Writer(hubs[n % 2], f"c{n}", indices[n % 2], random.Random(n)) for n in range(16)]
    for writer in writers:
        await writer.begin()
    begun = time.perf_counter()
    await asyncio.gather(*(_several(writer, 500) for writer in writers))
    took = time.perf_counter() - begun
    print(f"16 clients on 2 hubs: {16 * 500 / took:.0f} appends/s")


async def _several(writer: Writer, times: int) -> None:
    for _ in range(times):
        await writer.say(400)


async def hints(team: Team) -> None:
    """From a push at one hub until the other has the operation, with network delay on both."""
    for delay in (0.0, 0.02, 0.1):
        proxy = await Proxy(team.server.port).start()
        proxy.delay_s = delay / 2
        hub, other = team.hub("ada", port=proxy.port), team.hub("bob", port=proxy.port)
        told: asyncio.Queue = asyncio.Queue()
        other.subscribe(told.put_nowait)
        assert isinstance(await told.get(), Back)
        session = f"hints{delay}"
        writer = Writer(hub, session, counter(), random.Random(1))
        await writer.begin()
        await hub.push(
            Push("warm", NOTHING, seed("warm"), [operation(10**6, Created(seq=0, at=AT, info={}))])
        ) if delay == 0 else None
        seen, found, pushes = 0, [], []
        for _ in range(100 if delay == 0 else 20):
            begun = time.perf_counter()
            push = asyncio.ensure_future(writer.say(400))
            push.add_done_callback(lambda _, begun=begun, pushes=pushes: pushes.append(time.perf_counter() - begun))
            while True:
                hint = await told.get()
                if isinstance(hint, HeadHint) and hint.session == session and hint.head > seen:
                    page = await other.operations(session, seen, 1_000_000)
                    seen = page.head.head
                    break
            found.append(time.perf_counter() - begun)
            await push
        print(
            f"{delay * 1000:.0f} ms of network (there and back): push p50 {statistics.median(pushes) * 1000:.1f} ms,"
            f" read at the other hub p50 {statistics.median(found) * 1000:.1f} ms"
        )
        await hub.close()
        await other.close()
        await proxy.close()


async def growth(team: Team, messages: int) -> None:
    """Room for `messages` in sessions of 1,000, and how fast 10,000 of them are fetched and all sessions listed."""
    hub = team.hub()
    chance = random.Random(3)
    index = counter()
    said = 0
    for length in (400,):
        for session in range(messages // 1000):
            writer = Writer(hub, f"g{session:05}", index, chance)
            await writer.begin()
            for _ in range(2):
                await writer.say(length, 500)
            said += 1000 * length
    team.server.sql("VACUUM ANALYZE", team.database)
    size = int(
        team.server.sql(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'sessiond' AND c.relkind = 'r'",
            team.database,
        )
    )
    print(f"{messages} messages of 400 characters: {size / said:.2f} bytes on the hub for each byte of text")
    reader = team.hub("bob")
    await reader.welcome()
    begun = time.perf_counter()
    count = 0
    for session in range(min(10, messages // 1000)):
        number, more = NOTHING, True
        while more:
            page = await reader.operations(f"g{session:05}", number, 4_000_000)
            count, number, more = count + len(page.operations), page.operations[-1].number, page.more
    took = time.perf_counter() - begun
    print(f"catching up: {count / took:.0f} operations/s")
    begun = time.perf_counter()
    cursor: HubCursor | None = None
    heads, more = 0, True
    while more:
        listed = await reader.heads(cursor, 1000)
        cursor, more, heads = listed.cursor, listed.more, heads + len(listed.heads)
    print(f"listing {heads} sessions: {(time.perf_counter() - begun) * 1000:.0f} ms")
    print(f"one page of one session: {await timed(lambda: reader.operations('g00001', 900, 100_000), 100):.2f} ms")


async def measure(only: str | None, messages: int) -> None:
    server = Server("wheel", {"shared_buffers": "'128MB'"}).start()
    try:
        for name, work in (("one", one_client), ("many", many_clients), ("hints", hints)):
            if only in (None, name):
                team = await Team.make(server, f"figures_{name}")
                await work(team)
                await team.close()
        if only in (None, "growth"):
            team = await Team.make(server, "figures_growth")
            await growth(team, messages)
            await team.close()
    finally:
        server.close()


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--only", choices=("one", "many", "hints", "growth"))
    reader.add_argument("--messages", type=int, default=20_000)
    given = reader.parse_args()
    asyncio.run(measure(given.only, given.messages))


if __name__ == "__main__":
    main()
