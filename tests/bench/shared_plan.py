"""What decides how far one hub reaches: what NOTIFY costs all writers, and what it costs to ask instead."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

import asyncpg

from tests.bench.shared_world import LENGTH, Row, Scale, World, world
from tests.hub.figures import Writer
from tests.hub.postgres import Server

WRITERS = 16
_SILENT = """
CREATE OR REPLACE FUNCTION sessiond.tell(in_store int, session text, head bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT $$
"""


async def plan(server: Server, scale: Scale) -> list[Row]:
    rows = []
    for listeners in (1, 10, 100) if scale.many > 10 else (1,):
        async with world(server) as here:
            speed = await _writes(here, scale.many, listeners)
        rows.append((f"{WRITERS} daemons push, {listeners} listen", f"{speed:,.0f} transactions/s", ""))
    async with world(server) as here:
        here.server.sql(_SILENT, here.database)
        speed = await _writes(here, scale.many, 0)
        rows.append((f"{WRITERS} daemons push, without NOTIFY", f"{speed:,.0f} transactions/s", ""))
        rows.append(await _asks(here, scale))
    return rows


async def _writes(here: World, count: int, listeners: int) -> float:
    """Transactions a second, each of a daemon of its own with a session of its own."""
    channel = here.server.sql("SELECT channel FROM sessiond.stores", here.database)
    links = [await asyncpg.connect(here.url("bob")) for _ in range(listeners)]
    for link in links:
        await link.add_listener(channel, lambda *_: None)
    numbers = [itertools.count(1) for _ in range(WRITERS)]
    writers = [
        Writer(here.team.hub("ada"), f"w{one}", numbers[one].__next__, random.Random(one)) for one in range(WRITERS)
    ]
    for writer in writers:
        await writer.begin()

    async def write(writer: Writer) -> None:
        for _ in range(count):
            await writer.say(LENGTH)

    begin = time.perf_counter()
    await asyncio.gather(*map(write, writers))
    took = time.perf_counter() - begin
    for link in links:
        await link.close()
    return WRITERS * count / took


async def _asks(here: World, scale: Scale) -> Row:
    """A daemon that polls reads the list of what has changed since its cursor; nothing has."""
    hub = here.team.hub("bob")
    cursor = (await hub.heads(None, 1000)).cursor
    count = scale.many * 4
    begin = time.perf_counter()
    for _ in range(count):
        cursor = (await hub.heads(cursor, 1000)).cursor
    took = time.perf_counter() - begin
    return ("asking what has changed, one daemon after the other", f"{count / took:,.0f} questions/s", "")
