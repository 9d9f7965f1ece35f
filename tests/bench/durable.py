"""Durable appends: one after another, against peers and limits; in a longer session; from sixteen clients at once."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.bench.measure import (
    QUIET,
    Ratio,
    Row,
    Scale,
    Words,
    appender,
    fill,
    house,
    interleaved,
    middle,
    ms,
    per_second,
    ratio,
    timing,
)
from tests.bench.peers import Peer, peer, version
from tests.home import Home

CLIENTS = 16
SYNC_DELAY_US = 4000
_OTHERS = ("langgraph", "langchain-sql", "langchain-file", "llm")


def request(session: str, text: str) -> bytes:
    """An append as one line."""
    return call("session/append", {"sessionId": session, "messages": [{"role": "user", "content": text}]})


def call(method: str, params: dict[str, object]) -> bytes:
    """A request as one line."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


class Wire(Protocol):
    """A connected stream socket, or what does as one."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def fileno(self) -> int: ...


class Line:
    """A connection that sends one line and waits for one: as little as a client can do."""

    def __init__(self, connection: Wire, line: bytes) -> None:
        self.socket = connection
        self.line = line
        self.received = b""

    def round_trip(self) -> None:
        self.send()
        while not self.answered():
            pass

    def receive(self) -> None:
        """Wait for a line that was not asked for."""
        self.received = b""
        while not self.answered():
            pass

    def send(self) -> None:
        self.received = b""
        self.socket.sendall(self.line)

    def answered(self) -> bool:
        """After a read: whether the answer is whole."""
        chunk = self.socket.recv(65536)
        if not chunk:
            raise ConnectionError("the other end hung up")
        self.received += chunk
        if not self.received.endswith(b"\n"):
            return False
        if b'"error"' in self.received[:60]:
            raise AssertionError(self.received)
        return True


@contextmanager
def echo(folder: Path, line: bytes, *, tcp: bool = False) -> Iterator[Line]:
    """A bare asyncio echo with a connection to it, over `folder/echo.sock` or over TCP."""
    path = str(folder / "echo.sock")
    command = [sys.executable, str(Path(__file__).with_name("echo.py")), *([] if tcp else [path])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with socket.socket(socket.AF_INET if tcp else socket.AF_UNIX) as connection:
            connection.connect(("127.0.0.1", port) if tcp else path)
            if tcp:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield Line(connection, line)
        server.kill()


def line_to(home: Home, session: str, text: str) -> Line:
    """The one connection that has the session open, as a client's own is."""
    return appending(home.connect(), session, text)


def appending(wire: Wire, session: str, text: str, *first: bytes) -> Line:
    """A connection that has made a session and sends appends from now on. `first`: what it says before that."""
    line = Line(wire, b"")
    for one in (*first, call("session/new", {"sessionId": session})):
        line.line = one
        line.round_trip()
    line.line = request(session, text)
    return line


def one_client(scale: Scale) -> Iterator[Row]:
    """One client, 500 bytes, one append after the other."""
    text = Words().text(500)
    with house(QUIET) as home, contextlib.ExitStack() as stack:
        client = line_to(home, "s", text)
        bare = stack.enter_context(echo(home.path, request("s", text)))
        log = stack.enter_context(peer("log", home.path))
        sqlite = stack.enter_context(peer("sqlite", home.path))
        ours, echoed, logged, stdlib = interleaved(
            scale, timing(client.round_trip), timing(bare.round_trip), log.measure, sqlite.measure
        )
        floor = [[statistics.median(a) + statistics.median(b)] for a, b in zip(echoed, logged, strict=True)]
        over = ratio(ours, floor)
        against = f"bare echo {ms(middle(echoed))} + write and fdatasync {ms(middle(logged))}"
        yield Row("durable append of 500 B, p50", ms(middle(ours)), against, str(over), "<= 1.5", over.median <= 1.5)
        slower = ratio(ours, stdlib)
        yield Row("the same", ms(middle(ours)), f"sqlite3 WAL FULL in process {ms(middle(stdlib))}", str(slower))
        if scale.peers:
            yield from _against_peers(scale, client, home.path)


def _against_peers(scale: Scale, client: Line, folder: Path) -> Iterator[Row]:
    for which in ("agents", *_OTHERS):
        with peer(which, folder) as other:
            ours, theirs = interleaved(scale, timing(client.round_trip), other.measure)
            faster = ratio(theirs, ours, statistics.mean)
            name = version(which) + {
                "agents": " SQLiteSession",
                "langchain-sql": " SQL",
                "langchain-file": " file, not durable",
            }.get(which, "")
            aim = (">= 1", faster.median >= 1) if which == "agents" else ("", None)
            yield Row(
                "the same, calls/s", per_second(ours), f"{name}, in process {per_second(theirs)}", str(faster), *aim
            )


def length(scale: Scale) -> Iterator[Row]:
    """An append costs the same in a session of any length."""
    with house(QUIET) as home:
        filler = home.client()
        short = home.client()
        short.call("session/new", sessionId="short")
        for times in (1, *scale.growth):
            count = scale.long_session * times
            name = f"long{times}"
            filler.call("session/new", sessionId=name)
            fill(filler, name, count, 100 if times == 100 else 500)
            filler.call("session/save")
            client = home.client()
            ours, theirs = interleaved(scale, timing(appender(client, name)), timing(appender(short, "short")))
            same = ratio(ours, theirs)
            yield Row(
                f"append to a session of {count:,} messages, p50",
                ms(middle(ours)),
                f"to an empty one {ms(middle(theirs))}",
                str(same),
                "1, within a fifth",
                same.median <= 1.2,
            )
            filler.call("session/delete", sessionId=name, permanent=True)


def together(lines: Sequence[Line], each: int) -> list[float]:
    """All send at once, each again when it is answered, `each` times; the seconds of every call, and last of all together."""
    times: list[float] = []
    selector = selectors.DefaultSelector()
    begun: dict[Line, float] = {}
    left = dict.fromkeys(lines, each)
    start = time.perf_counter()
    for line in lines:
        selector.register(line.socket, selectors.EVENT_READ, line)
        begun[line] = time.perf_counter()
        line.send()
    while left:
        for key, _ in selector.select():
            line = key.data
            if not line.answered():
                continue
            now = time.perf_counter()
            times.append(now - begun[line])
            left[line] -= 1
            if left[line]:
                begun[line] = now
                line.send()
            else:
                del left[line]
                selector.unregister(line.socket)
    selector.close()
    return [*times, time.perf_counter() - start]


def processes(peers: Sequence[Peer], each: int) -> float:
    """Seconds until each of the processes has appended `each` times."""
    start = time.perf_counter()
    for one in peers:
        one.begin(each)
    for one in peers:
        one.end()
    return time.perf_counter() - start


def many_clients(scale: Scale) -> Iterator[Row]:
    """Sixteen clients at once, each with a separate session, against sixteen processes on one SQLite file."""
    yield from _many(scale, "16 clients, appends in all", [], 4, or_calls=9_000)


def slow_disk(scale: Scale) -> Iterator[Row]:
    """The same where a sync takes 4 ms more: both sides run under the same strace, which delays every fdatasync and stops for nothing else."""
    if not can_trace():
        return
    delay = ["strace", "-f", "--seccomp-bpf", "-o", os.devnull, "-e", "trace=fdatasync,fsync",
             "-e", f"inject=fdatasync,fsync:delay_enter={SYNC_DELAY_US}"]  # fmt: skip
    yield from _many(scale, "the same with 4 ms per sync", delay, 8)


def can_trace() -> bool:
    """Whether there is an strace that may trace: a container may forbid it."""
    try:
        return subprocess.run(["strace", "-o", os.devnull, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _many(scale: Scale, what: str, under: list[str], aim: float, or_calls: int = 0) -> Iterator[Row]:
    """`or_calls`: so many a second are enough, however fast SQLite is."""
    each = scale.calls
    text = Words().text(500)
    with house_under(under) as home, contextlib.ExitStack() as stack:
        lines = [line_to(home, f"s{n}", text) for n in range(CLIENTS)]
        first = stack.enter_context(peer("sqlite", home.path, under))  # makes the table
        rest = [stack.enter_context(peer("sqlite", home.path, under)) for _ in range(CLIENTS - 1)]
        ours, theirs, slowest = [], [], []
        together(lines, 2)
        processes([first, *rest], 2)
        for _ in range(scale.rounds):
            *times, whole = together(lines, each * 4)
            ours.append([whole / (CLIENTS * each * 4)])
            slowest.append(max(times))
            theirs.append([processes([first, *rest], each) / (CLIENTS * each)])
        faster = ratio(theirs, ours)
        late = statistics.median(slowest)
        limit = 0.05 + (8 * SYNC_DELAY_US / 1e6 if under else 0)
        fast = faster.median >= aim or (or_calls > 0 and 1 / middle(ours, statistics.mean) >= or_calls)
        met = fast and late <= limit
        yield Row(
            what,
            f"{per_second(ours)}, slowest call {ms(late)}",
            f"16 processes on sqlite3 WAL FULL {per_second(theirs)}",
            str(faster),
            f">= {aim:g}" + ("" if under else f" or {or_calls:,}/s; slowest <= 50 ms"),
            met,
        )
        for times in (one for one in scale.growth if one <= 10):
            more = [line_to(home, f"more{times}-{n}", text) for n in range(CLIENTS * times)]
            together(more, 2)
            runs = [together(more, each) for _ in range(max(1, scale.rounds // 2))]
            sums = [[whole / (len(more) * each)] for *_, whole in runs]
            late = statistics.median(max(calls) for *calls, _ in runs)
            name = what.replace("16 clients", f"{len(more)} clients").replace("the same", f"{len(more)} clients")
            against = f"16 clients {per_second(ours)}"
            yield Row(
                name, f"{per_second(sums)}, slowest call {ms(late)}", against, f"{middle(ours) / middle(sums):.2f}"
            )


@contextmanager
def house_under(under: list[str]) -> Iterator[Home]:
    """A home whose daemon runs under a command."""
    with house(QUIET) as home:
        if under:
            home.kill()
            log = open(home.path / "daemon.err", "ab")  # noqa: SIM115  (the process keeps it)
            command = [*under, sys.executable, "-m", "sessiond", "serve"]
            home.process = subprocess.Popen(command, env=home.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            log.close()
            home.client().close()
        try:
            yield home
        finally:
            if under:
                # strace passes no signal on: the daemon is asked to stop, and strace ends with it.
                home.client().call("daemon/stop")
                assert home.process is not None
                home.process.wait(30)


_IMPORT_S = 300.0
"""A corpus may be long, and the machine slow."""


def real(scale: Scale) -> Iterator[Row]:
    """Messages that people and models wrote, one by one (`SESSIOND_CORPUS`), against the same bytes into sqlite3 in this process."""
    corpus = os.environ.get("SESSIOND_CORPUS") or str(Path(__file__).parents[3] / "shared" / "corpus")
    if not Path(corpus).is_dir():
        return
    with house(QUIET) as home:
        client = home.client(_IMPORT_S)
        sessions = client.call("session/import", path=corpus)["sessions"]
        messages = []
        for session in sessions[:200]:
            for one in client.call("session/read", sessionId=session["sessionId"], last=20)["messages"]:
                kept = {key: value for key, value in one.items() if key not in ("id", "seq", "status")}
                messages.append(kept)
        client.call("session/new", sessionId="real")
        yield from _replayed(scale, home, client.call, messages)


def _replayed(
    scale: Scale, home: Home, call: Callable[..., object], messages: list[dict[str, object]]
) -> Iterator[Row]:
    import sqlite3

    db = sqlite3.connect(home.path / "real.db", isolation_level=None)
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=full")
    db.execute("create table m (id integer primary key, content text)")
    at = [0, 0]

    def mine() -> None:
        at[0] += 1
        call("session/append", sessionId="real", messages=[messages[at[0] % len(messages)]])

    def other() -> None:
        at[1] += 1
        db.execute("insert into m (content) values (?)", (json.dumps(messages[at[1] % len(messages)]),))

    ours, theirs = interleaved(scale, timing(mine), timing(other))
    slower: Ratio = ratio(ours, theirs)
    size = statistics.median(len(json.dumps(one)) for one in messages)
    yield Row(
        f"append of {len(messages):,} messages of real transcripts (half over {size:,.0f} B), p50",
        ms(middle(ours)),
        f"sqlite3 WAL FULL in process {ms(middle(theirs))}",
        str(slower),
    )
    db.close()
