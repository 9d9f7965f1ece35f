"""The adapters beside the stores that their SDKs bring, in one process and on one disk: `python -m tests.bench.adapters`.

Prints the rows of the table in docs/performance.md. Needs the packages of all extras.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.bench.measure import QUIET
from tests.home import Home

ROUNDS, CALLS, LONG, EACH = 7, 60, 10_000, 300
TEXT = "x" * 500


def item(text: str) -> Any:
    return {"role": "user", "content": f"{text} {TEXT}"}


async def took(call: Callable[[], Awaitable[Any]], times: int) -> float:
    """Seconds of one call, the median."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


async def compare(
    what: str, ours: Callable[[], Awaitable[Any]], theirs: Callable[[], Awaitable[Any]], name: str
) -> None:
    """One row: medians, and the ratio of their speed in each round."""
    pairs = [(await took(ours, CALLS), await took(theirs, CALLS)) for _ in range(ROUNDS)]
    ratios = [theirs_s / ours_s for ours_s, theirs_s in pairs]
    mine, other = (statistics.median(one[side] for one in pairs) * 1000 for side in (0, 1))
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"| {what} | {mine:.2f} ms | {name} {other:.2f} ms | {spread} |", flush=True)


async def agents(folder: Path) -> None:
    from agents import SQLiteSession

    from sessiond.adapters.openai_agents import SessiondSession

    ours, theirs = SessiondSession("long"), SQLiteSession("long", folder / "agents.db")
    for session in (ours, theirs):
        await session.add_items([item(str(n)) for n in range(LONG)])
    await compare(
        "openai-agents: add_items, one item",
        lambda: ours.add_items([item("a")]),
        lambda: theirs.add_items([item("a")]),
        "SQLiteSession",
    )
    await compare(
        "openai-agents: get_items, the last 50 of 10,000",
        lambda: ours.get_items(50),
        lambda: theirs.get_items(50),
        "SQLiteSession",
    )
    theirs.close()


async def both(kind: str, place: str) -> None:
    """Two processes add to one session: lost and doubled items, and how long it took."""
    began = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.adapters", "--write", kind, place]
    writers = [await asyncio.create_subprocess_exec(*command, who) for who in "ab"]
    codes = [await one.wait() for one in writers]
    seconds = time.perf_counter() - began
    told = [one["content"] for one in await opened(kind, place).get_items()]
    wanted = {item(f"{who}{n}")["content"] for who in "ab" for n in range(EACH)}
    lost, doubled = len(wanted - set(told)), len(told) - len(set(told))
    print(
        f"| two processes, 2 x {EACH} items: {kind} | {lost} lost, {doubled} doubled | {seconds:.1f} s, exit codes {codes} | |",
        flush=True,
    )


def opened(kind: str, place: str) -> Any:
    if kind == "sessiond":
        from sessiond.adapters.openai_agents import SessiondSession

        return SessiondSession("both")
    from agents import SQLiteSession

    return SQLiteSession("both", place)


async def write(kind: str, place: str, who: str) -> None:
    session = opened(kind, place)
    for number in range(EACH):
        await session.add_items([item(f"{who}{number}")])


async def langchain(folder: Path) -> None:
    from sessiond.adapters.langchain import SessiondChatMessageHistory

    ours = SessiondChatMessageHistory("chat", last=50)

    async def add() -> None:
        ours.add_user_message(TEXT)

    async def read() -> Any:
        return ours.messages

    await add()
    print(f"| langchain: add_messages, one message | {await took(add, ROUNDS * CALLS) * 1000:.2f} ms | | |", flush=True)
    print(f"| langchain: messages, the last 50 | {await took(read, ROUNDS * CALLS) * 1000:.2f} ms | | |", flush=True)


async def measure(folder: Path) -> None:
    await agents(folder)
    for kind in ("sessiond", "SQLiteSession"):
        await both(kind, str(folder / "both.db"))
    await langchain(folder)


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        asyncio.run(write(*sys.argv[2:5]))
        return
    with tempfile.TemporaryDirectory(prefix="sd-") as name:
        home = Home(Path(name), QUIET)
        home.start()
        os.environ["SESSIOND_HOME"] = name
        try:
            asyncio.run(measure(Path(name)))
        finally:
            home.stop()


if __name__ == "__main__":
    main()
