"""The benchmarks: every figure beside its limit or peer, interleaved in one run, as ratios with their spread.

    python -m tests.bench.run [--quick] [--write docs/performance.md]

Machines differ and are noisy, so nothing here is a test: only ratios of medians from the same run mean anything. `--quick` runs everything once on
little data, to see that it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.home import Client, Home

TEXT = "x" * 500
NOW = "2026-01-11T14:30:22.000Z"


@dataclass
class Row:
    what: str
    ours: str
    against: str
    ratio: str
    aim: str


@dataclass
class Scale:
    rounds: int
    calls: int
    long_session: int
    sessions: int


FULL = Scale(rounds=7, calls=400, long_session=100_000, sessions=2_000)
QUICK = Scale(rounds=2, calls=40, long_session=500, sessions=50)


def timed(call: Callable[[], object], count: int) -> list[float]:
    """Seconds of each of `count` calls."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def versus(
    ours: list[list[float]], theirs: list[list[float]], at: Callable[[list[float]], float] = statistics.median
) -> str:
    """Ratio ours/theirs round by round: median (lowest to highest)."""
    ratios = sorted(at(a) / at(b) for a, b in zip(ours, theirs, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def middle(rounds: list[list[float]]) -> float:
    return statistics.median(statistics.median(times) for times in rounds)


@contextmanager
def house(config: str = "") -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as folder:
        home = Home(Path(folder), config=config)
        home.start()
        try:
            yield home
        finally:
            home.stop()


class RawLog:
    """The limit: one write and one fdatasync."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def append(self) -> None:
        os.write(self._file, TEXT.encode())
        os.fdatasync(self._file)


class Sqlite:
    """The peer: stdlib sqlite3, WAL, synchronous=FULL, in process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "peer.db"
        self._db = sqlite3.connect(self.path, isolation_level=None, timeout=60, check_same_thread=False)
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        self._db.execute("create table if not exists m (id integer primary key, session text, content text)")
        self._db.execute("create index if not exists s on m (session, id)")

    def append(self) -> None:
        self._db.execute("insert into m (session, content) values ('s', ?)", (TEXT,))

    def last(self, count: int) -> list[object]:
        return self._db.execute("select * from m where session = 's' order by id desc limit ?", (count,)).fetchall()


def appender(client: Client, session: str) -> Callable[[], object]:
    return lambda: client.call("session/append", sessionId=session, messages=[{"role": "user", "content": TEXT}])


def bench_append(scale: Scale) -> Iterator[Row]:
    """One client, one append after the other, durable when answered."""
    with house() as home:
        client = home.client()
        client.call("session/new", sessionId="s")
        raw, peer = RawLog(home.path), Sqlite(home.path)
        ours, echo, limit, sqlite = [], [], [], []
        for _ in range(scale.rounds):
            ours.append(timed(appender(client, "s"), scale.calls))
            limit.append(timed(raw.append, scale.calls))
            sqlite.append(timed(peer.append, scale.calls))
            echo.append(timed(lambda: client.call("daemon/hello"), scale.calls))
        floor = [[statistics.median(a) + statistics.median(b)] for a, b in zip(echo, limit, strict=True)]
        yield Row(
            "durable append of 500 B, p50",
            ms(middle(ours)),
            f"write + fdatasync {ms(middle(limit))}",
            versus(ours, limit),
            "",
        )
        yield Row(
            "the same",
            ms(middle(ours)),
            f"empty request + write + fdatasync {ms(middle(floor))}",
            versus(ours, floor),
            "<= 2",
        )
        yield Row(
            "the same", ms(middle(ours)), f"sqlite3 WAL FULL in process {ms(middle(sqlite))}", versus(ours, sqlite), ""
        )


def bench_length(scale: Scale) -> Iterator[Row]:
    """An append costs the same in a session of any length; so do the last 50 messages."""
    with house() as home:
        client = home.client()
        client.call("session/new", sessionId="short")
        client.call("session/new", sessionId="long")
        for start in range(0, scale.long_session, 1000):
            batch = [
                {"role": "user", "content": f"{start + n} {TEXT}"} for n in range(min(1000, scale.long_session - start))
            ]
            client.call("session/append", sessionId="long", messages=batch)
        client.call("session/save")
        short, long, last = [], [], []
        for _ in range(scale.rounds):
            short.append(timed(appender(client, "short"), scale.calls))
            long.append(timed(appender(client, "long"), scale.calls))
            last.append(timed(lambda: client.call("session/open", sessionId="long", last=50), 20))
        name = f"append to a session of {scale.long_session:,} messages, p50"
        yield Row(name, ms(middle(long)), f"to an empty one {ms(middle(short))}", versus(long, short), "1")
        yield Row(f"open, last 50 of {scale.long_session:,}, p50", ms(middle(last)), "", "", "<= 1.5 ms")


def bench_many(scale: Scale) -> Iterator[Row]:
    """16 clients at once against 16 processes on one SQLite file."""
    clients, each = 16, max(scale.calls // 4, 10)
    with house() as home:
        ours = []
        slowest = 0.0
        for number in range(scale.rounds):
            threads, times = [], []
            for n in range(clients):
                client = home.client()
                client.call("session/new", sessionId=f"s{number}-{n}")
                call = appender(client, f"s{number}-{n}")
                threads.append(threading.Thread(target=lambda call=call, to=times: to.extend(timed(call, each))))
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ours.append([(time.perf_counter() - start) / (clients * each)])
            slowest = max(slowest, *times)
        theirs = [[sqlite_processes(home.path, clients, each)] for _ in range(min(scale.rounds, 3))]
        rate = f"{1 / middle(ours):,.0f}/s, slowest {ms(slowest)}"
        yield Row("16 clients, appends in all", rate, f"16 processes on sqlite3 {1 / middle(theirs):,.0f}/s",
                  f"{middle(theirs) / middle(ours):.2f}", ">= 3, slowest <= 50 ms")  # fmt: skip


_WRITER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("pragma synchronous=full")
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    db.execute("insert into m (session, content) values ('s', ?)", ("x" * 500,))
"""


def sqlite_processes(folder: Path, processes: int, each: int) -> float:
    """Seconds for one append, all processes together."""
    peer = Sqlite(folder)
    command = [sys.executable, "-c", _WRITER, str(peer.path), str(each)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(processes)]
    time.sleep(0.5)  # all have started and wait for the word
    start = time.perf_counter()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.wait()
    return (time.perf_counter() - start) / (processes * each)


def bench_spawn(scale: Scale) -> Iterator[Row]:
    """From spawning the relay to its first answer, against Python's own start."""
    with house() as home:
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon/hello"}).encode()
        framed = b"Content-Length: %d\r\n\r\n%s" % (len(request), request)
        script = Path(sys.executable).with_name("sessiond")
        command = [str(script)] if script.exists() else [sys.executable, "-m", "sessiond"]

        def attach() -> None:
            relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home.env)
            relay.stdin.write(framed)
            relay.stdin.flush()
            assert relay.stdout.readline().startswith(b"Content-Length")
            relay.stdin.close()
            relay.stdout.read()
            relay.wait()

        def bare() -> None:
            subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)

        ours, theirs = [], []
        for _ in range(scale.rounds):
            ours.append(timed(attach, 10))
            theirs.append(timed(bare, 10))
        yield Row("spawn to first answer, daemon running", ms(middle(ours)), f"python -I -c pass {ms(middle(theirs))}",
                  versus(ours, theirs), "<= 1.6")  # fmt: skip


def bench_list(scale: Scale) -> Iterator[Row]:
    """The first page of all sessions, and a rare word in all messages."""
    with house() as home:
        client = home.client()
        for n in range(scale.sessions):
            messages = [{"role": "user", "content": f"common words and number{n}x{m} {TEXT[:200]}"} for m in range(10)]
            client.call("session/new", sessionId=f"s{n}", name=f"session {n}", messages=messages)
            client.call("session/close", sessionId=f"s{n}")
        listed, rare = [], []
        client.call("session/list", limit=50)
        for _ in range(scale.rounds):
            listed.append(timed(lambda: client.call("session/list", limit=50), 20))
            rare.append(timed(lambda: client.call("session/search", query=f"number{scale.sessions // 2}x3"), 20))
        yield Row(f"list first 50 of {scale.sessions:,} sessions, p50", ms(middle(listed)), "", "", "<= 2 ms")
        yield Row(f"rare word in {scale.sessions * 10:,} messages, p50", ms(middle(rare)), "", "", "<= 5 ms")


BENCHES = (bench_append, bench_length, bench_many, bench_spawn, bench_list)


def table(rows: list[Row]) -> str:
    lines = [
        "| what | sessiond | against | ratio: median (lowest to highest) | aim |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join(
        [*lines, *(f"| {row.what} | {row.ours} | {row.against} | {row.ratio} | {row.aim} |" for row in rows)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="the name of one benchmark, less bench_")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for bench in BENCHES:
        if options.only in (None, bench.__name__.removeprefix("bench_")):
            for row in bench(QUICK if options.quick else FULL):
                print(f"{row.what}: {row.ours}  {row.against}  {row.ratio}  {row.aim}", flush=True)
                rows.append(row)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    text = (
        "# Performance\n\nWritten by `python -m tests.bench.run --write docs/performance.md`. Ratios are from one run, figures "
        f"side by side; absolute times say more about the machine ({machine}) than about the program.\n\n{table(rows)}\n"
    )
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
