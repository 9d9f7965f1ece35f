"""The durable append again: through the relay, over TCP, and while others have the session open."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.durable import Line, appending, call, echo, line_to, request
from tests.bench.measure import (
    QUIET,
    Measure,
    Rounds,
    Row,
    Scale,
    Words,
    house,
    interleaved,
    middle,
    ms,
    ratio,
    timed,
    timing,
)
from tests.bench.peers import peer
from tests.bench.start import relay_command
from tests.home import Home


class Pipes:
    """The two pipes of a child process, with a socket's methods."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._to, self._back = child.stdin.fileno(), child.stdout.fileno()

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._to, left) :]

    def recv(self, size: int) -> bytes:
        return os.read(self._back, size)

    def fileno(self) -> int:
        return self._back


@contextmanager
def child(command: list[str], env: dict[str, str] | None = None) -> Iterator[Pipes]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        yield Pipes(process)
        assert process.stdin is not None
        process.stdin.close()  # its end of input: it ends too


def through_the_relay(scale: Scale) -> Iterator[Row]:
    """As an editor appends, by the pipes of `sessiond`, against an echo behind the barest copying process."""
    text = Words().text(500)
    hop = [sys.executable, str(Path(__file__).with_name("hop.py"))]
    with house(QUIET) as home, contextlib.ExitStack() as stack:
        ours = appending(stack.enter_context(child(relay_command(), home.env)), "s", text)
        echoing = stack.enter_context(echo(home.path, request("s", text)))
        copied = stack.enter_context(child([*hop, str(home.path / "echo.sock")]))
        yield _over_the_floor(
            scale,
            home,
            "durable append of 500 B through the relay, p50",
            ours,
            Line(copied, echoing.line),
            "echo behind a bare relay",
        )


def over_tcp(scale: Scale) -> Iterator[Row]:
    """As a client on another machine appends, but on this one, against an echo over TCP."""
    text = Words().text(500)
    with house(QUIET) as home, contextlib.ExitStack() as stack:
        address = home.client().call("daemon/listen", kind="tcp", host="127.0.0.1", port=0)
        token = Path(address["tokenFile"]).read_text().strip()
        params = {"capabilities": {}, "initializationOptions": {"token": token}}
        hello = call("initialize", params)
        connection = stack.enter_context(socket.create_connection((address["host"], address["port"])))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours = appending(connection, "s", text, hello)
        echoing = stack.enter_context(echo(home.path, request("s", text), tcp=True))
        yield _over_the_floor(scale, home, "durable append of 500 B over TCP, p50", ours, echoing, "bare echo over TCP")


def _over_the_floor(scale: Scale, home: Home, what: str, ours: Line, echoing: Line, how: str) -> Row:
    with peer("log", home.path) as log:
        mine, echoed, logged = interleaved(scale, timing(ours.round_trip), timing(echoing.round_trip), log.measure)
    floor: Rounds = [[statistics.median(a) + statistics.median(b)] for a, b in zip(echoed, logged, strict=True)]
    over = ratio(mine, floor)
    against = f"{how} {ms(middle(echoed))} + write and fdatasync {ms(middle(logged))}"
    return Row(what, ms(middle(mine)), against, str(over), "<= 2", over.median <= 2)


def attended(scale: Scale) -> Iterator[Row]:
    """Two others have the session open: one reads, one never does. Compared with a session of the same daemon that no other
    client has open.
    """
    text = Words().text(500)
    with house(QUIET) as home:
        alone, watched = line_to(home, "alone", text), line_to(home, "watched", text)
        reader, deaf = (
            Line(home.connect(), call("session/open", {"sessionId": "watched", "last": 0})) for _ in range(2)
        )
        for one in (reader, deaf):
            one.round_trip()
        ours, theirs = interleaved(scale, _read_between(watched, reader), timing(alone.round_trip))
        same = ratio(ours, theirs)
        yield Row(
            "durable append of 500 B, two others attached, one of which never reads, p50",
            ms(middle(ours)),
            f"nobody else attached {ms(middle(theirs))}",
            str(same),
            "<= 1.15",
            same.median <= 1.15,
        )


def _read_between(writer: Line, reader: Line) -> Measure:
    """The reader takes what it is told of an append after that was timed: a separate process would want a processor, too."""

    def measure(count: int) -> list[float]:
        times = []
        for _ in range(count):
            times += timed(writer.round_trip, 1)
            reader.receive()
        return times

    return measure
