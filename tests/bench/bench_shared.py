"""What a shared store costs:  python -m tests.bench.bench_shared [--messages N] [--only NAME ...] [--write docs/performance.md]

A real PostgreSQL, real daemons, and clients on their sockets. Links are direct, or have a delay added (there and back). An append is
beside a bare transaction of the same shape, called by asyncpg on the same link, in turn: the same row lock, insert and NOTIFY in a
function of a few lines. Growth is measured with sessions of 1,000 messages of 400 characters.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import random
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg

from tests.bench.report import write_section
from tests.bench.shared_growth import growth
from tests.bench.shared_plan import plan
from tests.bench.shared_world import LENGTH, SMOKE, Peer, Row, Scale, World, begun, timed, world
from tests.hub.figures import text
from tests.hub.postgres import Server

# One client, beside a bare transaction


async def one_client(server: Server, scale: Scale) -> list[Row]:
    rows = []
    for delay in scale.delays:
        async with world(server, delay) as here:
            ours, bare, local = await _in_turn(here, scale.with_delay(delay))
        label = f"one client's append, p50, {delay} ms of network"
        measured = f"{ours:.2f} ms; bare transaction {bare:.2f} ms: {ours / bare:.2f} x"
        rows.append((label, f"{measured}; in a local store {local:.2f} ms", "<= 2 x"))
    return rows


async def _in_turn(here: World, scale: Scale) -> tuple[float, float, float]:
    peer = await Peer.of(await here.daemon())
    session, local = await begun(peer), await begun(peer, "default")
    link = await asyncpg.connect(here.url("postgres"))
    chance, numbers = random.Random(1), itertools.count(1)

    async def bare() -> None:
        number, words = next(numbers), text(chance, LENGTH).encode()
        await link.fetchval("SELECT bare_push($1, $2, $3, $4, $5)", 1, f"01{number:024x}", "a" * 32, number, words)

    works = [lambda: peer.say(session, text(chance, LENGTH)), bare, lambda: peer.say(local, text(chance, LENGTH))]
    found: list[list[float]] = [[] for _ in works]
    for turn in range(scale.turns + 1):
        for work, times in zip(works, found, strict=True):
            taken = [await timed(work) for _ in range(scale.each)]
            times += taken if turn else []  # the first turn is for caches
    await link.close()
    peer.close()
    ours, plain, alone = (statistics.median(times) for times in found)
    return ours, plain, alone


# Sixteen clients on two daemons


async def many_clients(server: Server, scale: Scale) -> list[Row]:
    rows = []
    for delay in scale.delays:
        async with world(server, delay) as here:
            homes = [await here.daemon(), await here.daemon()]
            peers = [await Peer.of(homes[number % 2]) for number in range(16)]
            sessions = [await begun(peer) for peer in peers]
            count = scale.with_delay(delay).many
            words = text(random.Random(2), LENGTH)

            async def writes(peer: Peer, session: str, count: int = count, words: str = words) -> None:
                for _ in range(count):
                    await peer.say(session, words)

            took = await timed(lambda: asyncio.gather(*map(writes, peers, sessions)))  # noqa: B023
            for peer in peers:
                peer.close()
        rows.append(
            (
                f"16 clients on two daemons, {delay} ms of network",
                f"{16 * count / took * 1000:,.0f} appends/s",
                ">= 2,000/s" if not delay else "",
            )
        )
    return rows


# From one editor to another


async def reach(server: Server, scale: Scale) -> list[Row]:
    rows = []
    for delay in scale.delays:
        async with world(server, delay) as here:
            writer, reader = await Peer.of(await here.daemon()), await Peer.of(await here.daemon())
            session = await begun(writer)
            await writer.say(session, "first")
            while session not in {one["sessionId"] for one in (await reader.call("session/list"))["sessions"]}:
                await asyncio.sleep(0.02)
            await reader.call("session/open", sessionId=session)
            answered, heard = [], []
            for _ in range(scale.with_delay(delay).reach):
                told = asyncio.ensure_future(timed(reader.changed))
                await asyncio.sleep(0)
                answered.append(await timed(lambda: writer.say(session, text(random.Random(3), LENGTH))))  # noqa: B023
                heard.append(await told)
            writer.close()
            reader.close()
        measured = (
            f"{statistics.median(heard):.1f} ms; its writer is answered after {statistics.median(answered):.1f} ms"
        )
        rows.append(
            (
                f"a change is told to an editor at the other daemon, p50, {delay} ms of network",
                measured,
                "<= 5 ms" if not delay else "",
            )
        )
    return rows


# Beside another way to keep conversations in PostgreSQL


async def langgraph(server: Server, scale: Scale) -> list[Row]:
    what = "the same with langgraph-checkpoint-postgres (a checkpoint of one message), p50"
    if importlib.util.find_spec("langgraph") is None or importlib.util.find_spec("psycopg") is None:
        return [(what, "not installed here", "")]
    from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with world(server) as here, AsyncPostgresSaver.from_conn_string(here.url("postgres")) as saver:
        await saver.setup()
        config: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
        chance, times = random.Random(4), []
        for number in range(scale.turns * scale.each):
            base = empty_checkpoint()
            base["channel_values"] = {"messages": [text(chance, LENGTH)]}
            version: Any = f"{number:032}.0"
            base["channel_versions"] = {"messages": version}
            made = create_checkpoint(base, None, number)

            async def put(made: Any = made, version: Any = version) -> None:
                nonlocal config
                config = await saver.aput(config, made, {}, {"messages": version})

            times.append(await timed(put))
    return [(what, f"{statistics.median(times):.2f} ms", "")]


PARTS: dict[str, Callable[[Server, Scale], Awaitable[list[Row]]]] = {
    "one": one_client,
    "many": many_clients,
    "reach": reach,
    "langgraph": langgraph,
    "growth": growth,
    "plan": plan,
}


async def measure(only: list[str], scale: Scale) -> list[Row]:
    server = Server("wheel", {"shared_buffers": "'128MB'", "max_connections": "300"}).start()
    rows = []
    try:
        for name in only:
            for row in await PARTS[name](server, scale):
                rows.append(row)
                print(" | ".join(row), flush=True)
    finally:
        server.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="NAME")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    scale = SMOKE if options.smoke else Scale(messages=options.messages)
    rows = asyncio.run(measure(options.only, scale))
    lines = [
        "PostgreSQL 18 on the same machine as the daemons and clients.",
        "",
        "| what | measured | aim |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {what} | {measured} | {aim} |" for what, measured, aim in rows]
    if options.write:
        write_section(options.write, "tests.bench.bench_shared", "Shared stores (`tests/bench/bench_shared.py`)", lines)


if __name__ == "__main__":
    main()
