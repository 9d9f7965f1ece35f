"""What people wait for: opening, listing, and seeing another client's text."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.durable import Line, request
from tests.bench.footprint import memory
from tests.bench.measure import (
    QUIET,
    Row,
    Scale,
    Words,
    fill,
    house,
    mb,
    middle,
    ms,
    p99,
    scratch,
    sessions_folder,
    timed,
    write_session,
)
from tests.bench.report import until_quiet
from tests.bench.start import _until_indexed
from tests.home import Client, Home


def opening(scale: Scale) -> Iterator[Row]:
    """The last 50 messages of a session that is in memory, however long it is."""
    with house(QUIET) as home:
        client = home.client()
        for times in (1, *scale.growth):
            count = scale.long_session * times
            client.call("session/new", sessionId=f"s{times}")
            fill(client, f"s{times}", count, 100 if times == 100 else 500)
            rounds = [
                timed(lambda n=times: client.call("session/open", sessionId=f"s{n}", last=50), 20)  # type: ignore[misc]
                for _ in range(scale.rounds)
            ]
            yield Row(
                f"open last 50 of {count:,} messages, warm, p50",
                ms(middle(rounds)),
                "",
                "",
                "<= 1.5 ms",
                middle(rounds) <= 0.0015,
            )
            client.call("session/delete", sessionId=f"s{times}", permanent=True)


def started_with(folder: Path, count: int) -> Home:
    """A daemon that has so many small sessions."""
    home = Home(folder)
    files = sessions_folder(folder)
    for n in range(count):
        write_session(files, f"s{n:06}", 2, 60)
    home.start()
    return home


def listing(scale: Scale) -> Iterator[Row]:
    """The first page of all sessions; what the daemon needs for them; how long it takes until a new daemon knows them all."""
    for times in (1, *scale.growth):
        count = scale.sessions * times
        with scratch() as folder:
            home = started_with(folder, count)
            try:
                client = home.client()
                learnt = _until_indexed(client, count)
                home.stop()
                home.start()
                client = home.client()

                def listed(client: Client = client) -> list[float]:
                    return [timed(lambda: client.call("session/list", limit=50), 20) for _ in range(scale.rounds)]

                early = listed()
                assert home.process is not None
                until_quiet(home.process.pid)
                rounds = listed()
                resident, proportional = memory(home)
            finally:
                home.stop()
        yield Row(
            f"list first 50 of {count:,} sessions, p50",
            ms(middle(rounds)),
            f"while its files are compared after a restart {ms(middle(early))}; all learnt from them in {ms(learnt)}",
            "",
            "<= 2 ms",
            middle(rounds) <= 0.002,
        )
        largest = count >= 100_000
        yield Row(
            f"memory with {count:,} sessions, after a restart and lists",
            f"PSS {mb(proportional)}, RSS {mb(resident)}",
            "",
            "",
            "<= 120 MB" if largest else "",
            proportional <= 120e6 if largest else None,
        )


def attached(scale: Scale) -> Iterator[Row]:
    """One writes; until all who have the session open have seen it."""
    for times in (1, *(one for one in scale.growth if scale.attached * one <= 1000)):
        count = scale.attached * times
        with house(QUIET) as home:
            times_seen = _seen(home, count, max(20, scale.calls * scale.rounds))
        met = p99(times_seen) <= 0.025 if times == 1 else None
        yield Row(
            f"{count} clients attached, a change seen by all, p99",
            ms(p99(times_seen)),
            f"p50 {ms(sorted(times_seen)[len(times_seen) // 2])}",
            "",
            "<= 25 ms" if times == 1 else "",
            met,
        )


def _seen(home: Home, count: int, rounds: int) -> list[float]:
    writer = home.client()
    writer.call("session/new", sessionId="s")
    readers: list[Client] = [home.client() for _ in range(count)]
    for reader in readers:
        reader.call("session/open", sessionId="s", last=0)
    selector = selectors.DefaultSelector()
    lines = []
    for reader in readers:
        line = Line(reader._sock, b"")
        lines.append(line)
        selector.register(reader._sock, selectors.EVENT_READ, line)
    writing = Line(home.connect(), request("s", Words().text(500)))
    times = []
    for _ in range(rounds):
        for line in lines:
            line.received = b""
        start = time.perf_counter()
        writing.send()
        waiting = set(lines)
        while waiting:
            for key, _ in selector.select():
                if key.data.answered():
                    waiting.discard(key.data)
        times.append(time.perf_counter() - start)
        while not writing.answered():
            pass
    selector.close()
    return times
