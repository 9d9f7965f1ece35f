"""How a shared store grows: room on the hub, catching up, joining, and reading beside a local store."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import tempfile
import time

from sessiond.clock import SystemClock
from sessiond.hub.bodies import operation
from sessiond.hub.port import NOTHING, Push, seed
from sessiond.model.changes import Appended, Change, Created
from sessiond.model.session import Session
from sessiond.shared.ledger import Ledger
from sessiond.shared.link import HubLink
from sessiond.shared.listing import listing_after
from tests.bench.shared_world import A_SESSION, LENGTH, Peer, Row, Scale, World, timed, world
from tests.home import Home
from tests.hub.figures import AT, text
from tests.hub.postgres import Server


async def growth(server: Server, scale: Scale) -> list[Row]:
    async with world(server) as here:
        sessions = scale.messages // A_SESSION
        await _fill(here, sessions)
        server.sql("VACUUM ANALYZE", here.database)
        size = int(
            server.sql(
                "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = 'sessiond' AND c.relkind = 'r'",
                here.database,
            )
        )
        rows: list[Row] = [
            (
                f"{scale.messages:,} messages: bytes on the hub for each byte of text",
                f"{size / scale.messages / LENGTH:.2f}",
                "<= 2.0",
            )
        ]
        rows.append(await _catching_up(here, min(10, sessions)))
        rows += await _joining(here, sessions, scale)
        return rows


def _said(chance: random.Random, number: int) -> Change:
    wire = {
        "id": f"01{number:024x}",
        "seq": number,
        "role": chance.choice(("user", "assistant")),
        "content": text(chance, LENGTH),
        "timestamp": AT,
    }
    return Appended(seq=number, at=AT, messages=[wire])


async def _fill(here: World, sessions: int) -> None:
    hub = here.team.hub()
    chance, indices = random.Random(5), itertools.count(1)
    for number in range(sessions):
        name = f"g{number:05}"
        created = Created(seq=0, at=AT, info={"createdAt": AT, "updatedAt": AT, "name": name})
        changes: list[Change] = [created, *(_said(chance, seq) for seq in range(1, A_SESSION + 1))]
        operations = [operation(next(indices), change) for change in changes]
        pushed = await hub.push(Push(name, NOTHING, seed(name), operations, listing_after(Session(name, AT), changes)))
        assert pushed.outcome == "stored"


async def _catching_up(here: World, sessions: int) -> Row:
    """What a daemon does with sessions that it lacks, without the files and the index."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        ledger = Ledger(f"{folder}/ledger")
        await ledger.open()
        hub = here.team.hub("bob")
        await hub.welcome()
        link = HubLink("team", ledger, hub, SystemClock(), patience_s=60)

        async def all_of_them() -> None:
            for number in range(sessions):
                assert await link.pull(f"g{number:05}")
            await ledger.operations("g00000", NOTHING)  # all that was to be written has been by then

        took = await timed(all_of_them)
        await ledger.close()
    return (
        f"catching up {sessions * A_SESSION:,} messages, into the ledger",
        f"{sessions * A_SESSION / took * 1000:,.0f}/s",
        ">= 20,000/s",
    )


async def _joining(here: World, sessions: int, scale: Scale) -> list[Row]:
    begin = time.perf_counter()
    home = await here.daemon("mirror = true\n")
    peer = await Peer.of(home)
    listed: set[str] = set()
    while len(listed) < sessions:
        listed, cursor = set(), None
        while True:
            page = await peer.call(
                "session/list", filter={"store": "team"}, limit=500, **({"cursor": cursor} if cursor else {})
            )
            listed |= {one["sessionId"] for one in page["sessions"]}
            cursor = page["nextCursor"]
            if cursor is None:
                break
    first_list = time.perf_counter() - begin
    first_open = await timed(lambda: peer.call("session/open", sessionId="team/g00000"))
    appends = await _meanwhile(peer)
    everything = time.perf_counter() - begin
    rows = [
        (
            f"a new machine's first complete list of {sessions:,} sessions, with its daemon's start",
            f"{first_list * 1000:,.0f} ms",
            "",
        ),
        ("its first session is open, the rest is being fetched", f"{first_open:,.0f} ms", ""),
        ("an append to a session of the store meanwhile, p50 and p99", appends, ""),
        (
            "everything is fetched, written and indexed",
            f"{everything:,.0f} s, {scale.messages / everything:,.0f} messages/s",
            "",
        ),
    ]
    return rows + await _beside_local(home, peer, sessions, scale)


async def _meanwhile(peer: Peer) -> str:
    """How long an append takes while everything is being fetched, until it is, and then."""
    session = str((await peer.call("session/new", store="team"))["session"]["sessionId"])
    words = text(random.Random(7), LENGTH)

    async def appends(many: int) -> list[float]:
        took = []
        for _ in range(many):
            took.append(await timed(lambda: peer.say(session, words)))
            await asyncio.sleep(0.05)
        return took

    meanwhile = await appends(5)
    while (await peer.call("session/search", query="nothing-like-it")).get("incomplete"):
        meanwhile += await appends(5)
    before, after = (_in_words(took) for took in (meanwhile, await appends(50)))
    return f"{before}; afterwards {after}"


def _in_words(took: list[float]) -> str:
    return f"{statistics.median(took):.1f} ms and {sorted(took)[int(len(took) * 0.99)]:.0f} ms"


async def _beside_local(home: Home, peer: Peer, sessions: int, scale: Scale) -> list[Row]:
    """Opening sessions that are not in memory, and the first page of a list, in both stores."""
    chance = random.Random(6)
    opens = min(scale.opens, sessions - 1)
    for number in range(opens):
        await peer.call("session/new", sessionId=f"local{number}")
        said = [{"role": "user", "content": text(chance, LENGTH)} for _ in range(A_SESSION)]
        await peer.call("session/append", sessionId=f"local{number}", messages=said)
    await peer.call("session/save")
    peer.close()
    await asyncio.to_thread(home.stop)
    await asyncio.to_thread(home.start)
    peer = await Peer.of(home)
    while (await peer.call("session/search", query="nothing-like-it")).get("incomplete"):
        await asyncio.sleep(0.1)
    opened: dict[str, list[float]] = {"local{}": [], "team/g{:05}": []}
    for number in range(1, opens):
        for name, times in opened.items():
            session = name.format(number)
            times.append(await timed(lambda: peer.call("session/open", sessionId=session)))  # noqa: B023
    lists: dict[str, list[float]] = {"default": [], "team": []}
    for _ in range(50):
        for store, times in lists.items():
            times.append(await timed(lambda: peer.call("session/list", filter={"store": store}, limit=20)))  # noqa: B023
    peer.close()
    local, shared = (statistics.median(times) for times in opened.values())
    local_list, shared_list = (statistics.median(times) for times in lists.values())
    return [
        (
            f"open a session of {A_SESSION:,} messages that is not in memory, p50",
            f"{shared:.1f} ms; in a local store {local:.1f} ms",
            "as fast",
        ),
        ("list 20 of them, p50", f"{shared_list:.2f} ms; in a local store {local_list:.2f} ms", "as fast"),
    ]
