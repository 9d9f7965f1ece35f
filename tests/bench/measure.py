"""The parts of every benchmark: times of alternating calls, ratios of one round, rows of the table."""

from __future__ import annotations

import atexit
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.home import Client, Home

QUIET = "[autosave]\ninterval_s = 0\nidle_s = 0\n"
"""A configuration under which nothing is saved by itself: what is measured is the journal."""


@dataclass(frozen=True)
class Scale:
    """How much of everything. `rounds`: a ratio is taken in each; `blocks`: in each the calls take turns so often."""

    rounds: int
    blocks: int
    calls: int
    """In one block, of each side."""
    spawns: int
    long_session: int
    sessions: int
    large_file_bytes: int
    all_bytes: int
    """Of all sessions together, for the start of a daemon."""
    journal_bytes: int
    attached: int
    opened: int
    """Sessions of `opened_bytes` each that are opened and closed."""
    opened_bytes: int
    appends: int
    """For the bytes on disk."""
    idle_s: float
    relayed_bytes: int
    growth: tuple[int, ...]
    """Also at so many times the size."""
    peers: bool


MB = 1_000_000
FULL = Scale(
    rounds=7, blocks=10, calls=20, spawns=10, long_session=10_000, sessions=1_000, large_file_bytes=100 * MB, all_bytes=1000 * MB,
    journal_bytes=64 * MB, attached=50, opened=200, opened_bytes=MB, appends=5_000, idle_s=20.0, relayed_bytes=10 * MB, growth=(10, 100), peers=True,
)  # fmt: skip
QUICK = Scale(
    rounds=3, blocks=4, calls=10, spawns=4, long_session=1_000, sessions=200, large_file_bytes=10 * MB, all_bytes=30 * MB, journal_bytes=6 * MB,
    attached=50, opened=20, opened_bytes=MB, appends=5_000, idle_s=5.0, relayed_bytes=10 * MB, growth=(10,), peers=True,
)  # fmt: skip
SMOKE = Scale(
    rounds=1, blocks=1, calls=3, spawns=1, long_session=50, sessions=10, large_file_bytes=100_000, all_bytes=100_000, journal_bytes=50_000,
    attached=3, opened=2, opened_bytes=20_000, appends=50, idle_s=0.2, relayed_bytes=100_000, growth=(2,), peers=False,
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """`met`: whether the aim was reached; None if there is no aim."""

    what: str
    ours: str
    against: str = ""
    ratio: str = ""
    aim: str = ""
    met: bool | None = None


Rounds = list[list[float]]
"""Seconds of each call, by round."""


def timed(call: Callable[[], object], count: int) -> list[float]:
    """Seconds of each of `count` calls."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


Measure = Callable[[int], list[float]]
"""Makes so many calls; the seconds of each."""


def timing(call: Callable[[], object]) -> Measure:
    return lambda count: timed(call, count)


def interleaved(scale: Scale, *measures: Measure) -> list[Rounds]:
    """Let them take turns, a few calls each: what else the machine does meets all of them alike."""
    for measure in measures:
        measure(max(1, scale.calls // 4))  # files made, caches warm
    rounds: list[Rounds] = [[] for _ in measures]
    for _ in range(scale.rounds):
        times: list[list[float]] = [[] for _ in measures]
        for block in range(scale.blocks):
            for turn in range(len(measures)):
                which = (turn + block) % len(measures)
                times[which] += measures[which](scale.calls)
        for which, one in enumerate(times):
            rounds[which].append(one)
    return rounds


def p50(times: Sequence[float]) -> float:
    return statistics.median(times)


def p99(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * 99 // 100)]


def middle(rounds: Rounds, at: Callable[[Sequence[float]], float] = p50) -> float:
    """The median of the rounds' figures."""
    return statistics.median(at(times) for times in rounds)


@dataclass(frozen=True)
class Ratio:
    """Of the figures of each round; the median counts."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.values):.2f} to {max(self.values):.2f})"


def ratio(above: Rounds, below: Rounds, at: Callable[[Sequence[float]], float] = p50) -> Ratio:
    return Ratio(tuple(at(a) / at(b) for a, b in zip(above, below, strict=True)))


def per_second(rounds: Rounds) -> str:
    return f"{1 / middle(rounds, statistics.mean):,.0f}/s"


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def mb(size: float) -> str:
    return f"{size / MB:.3g} MB"


_SYLLABLES = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]


class Words:
    """Text as people write it, more or less; the same every time."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice((1, 2, 2, 3)))) for _ in range(5_000)
        ]

    def text(self, size: int) -> str:
        """Of exactly `size` bytes."""
        parts: list[str] = []
        length = 0
        while length <= size:
            parts.append(self._random.choice(self._words))
            length += len(parts[-1]) + 1
        return " ".join(parts)[:size]


_removed_at_the_end = ExitStack()
atexit.register(_removed_at_the_end.close)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk that is measured: `TMPDIR` says which. It is removed when the program ends: ext4 passes over every inode
    that was freed in the last minutes whenever it makes a file, so removing it earlier would slow down what is measured next.
    """
    folder = tempfile.TemporaryDirectory(prefix="sessiond-bench-")
    yield Path(_removed_at_the_end.enter_context(folder))


@contextmanager
def house(config: str = "") -> Iterator[Home]:
    """A home with a daemon in it."""
    with scratch() as folder:
        home = Home(folder, config=config)
        home.start()
        try:
            yield home
        finally:
            home.stop()


def appender(client: Client, session: str, size: int = 500) -> Callable[[], object]:
    words = Words()
    text = words.text(size)
    return lambda: client.call("session/append", sessionId=session, messages=[{"role": "user", "content": text}])


def fill(client: Client, session: str, count: int, size: int = 500) -> None:
    """Append `count` messages of `size` bytes each."""
    words = Words()
    texts = [words.text(size) for _ in range(50)]
    batch = max(1, min(1000, MB // size))
    for start in range(0, count, batch):
        messages = [
            {"role": "user", "content": f"{n} {texts[n % 50]}"[:size]} for n in range(start, min(start + batch, count))
        ]
        client.call("session/append", sessionId=session, messages=messages)


@cache
def _texts(size: int) -> list[str]:
    words = Words()
    return [words.text(size) for _ in range(20)]


def write_session(folder: Path, name: str, count: int, size: int) -> None:
    """A session file in the native format, as if it had been there for long."""
    texts = _texts(size)
    at = "2026-01-11T14:30:22.000Z"
    with open(folder / f"{name}.jsonl", "w") as file:
        file.write('{"sessiond":1,"id":"%s","createdAt":"%s","name":"session %s"}\n' % (name, at, name))
        file.writelines(
            '{"id":"m%d","seq":%d,"role":"%s","content":"%s","timestamp":"%s"}\n'
            % (n, n, ("user", "assistant")[n % 2], f"{name} {n} {texts[n % 20]}"[:size], at)
            for n in range(1, count + 1)
        )


def sessions_folder(home: Path) -> Path:
    """Where the default store's files lie, made if need be."""
    folder = home / "data" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    for one in (home / "data", folder):
        os.chmod(one, 0o700)
    return folder
