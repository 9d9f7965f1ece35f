"""What following a large source costs while its tool writes to it: from a write until a client that has the session open is told."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.bench.measure import MB, Row, Scale, scratch
from tests.home import Client, Home
from tests.importers.opencode_tables import SCHEMA

KIB = 1024
WORDS = "the quick brown fox jumps over the lazy dog and comes back to look again " * 28
TALK = "0f0c1f8e-2222-4333-8444-555555555555"
OLD_MS = 1_780_000_000_000
_SMALL_MB = 10 * MB
_TOLD_S = 120.0
_AT_REST_S = 3.0
"""What is done at leisure begins two seconds after the last write."""


class Source(Protocol):
    """A tool's file in `user`, its home, of about so many bytes. `talk`: the id of the session that grows."""

    tool: str
    talk: str

    def __init__(self, user: Path, size: int) -> None: ...

    def say(self, count: int) -> range:
        """Write so many messages to the session at once; returns their numbers."""

    def close(self) -> None: ...


class ClaudeCode:
    """One file with one session."""

    tool, talk = "claude-code", f"claude-code-{TALK}"

    def __init__(self, user: Path, size: int) -> None:
        path = user / ".claude" / "projects" / "-w" / f"{TALK}.jsonl"
        path.parent.mkdir(parents=True)
        self._file = path.open("ab")
        self._next = 1
        while self._file.tell() < size:
            self.say(100)

    def say(self, count: int) -> range:
        numbers = range(self._next, self._next + count)
        self._file.write(b"".join(map(self._record, numbers)))
        self._file.flush()
        self._next += count
        return numbers

    def _record(self, number: int) -> bytes:
        role = "user" if number % 2 else "assistant"
        said = {
            "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None,
            "sessionId": TALK, "cwd": "/w", "version": "2.1",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "message": {"role": role, "content": f"message {number} {WORDS}"},
        }  # fmt: skip
        return json.dumps(said).encode() + b"\n"

    def close(self) -> None:
        self._file.close()


class _Database:
    """Sessions of a MB each in a database that its tool has open, in WAL mode; one of them grows."""

    schema = ""

    def __init__(self, path: Path, size: int) -> None:
        path.parent.mkdir(parents=True)
        self._db = sqlite3.connect(path)
        self._db.executescript(self.schema)
        sessions = max(size // MB, 2)
        count = max(size // (len(WORDS) + 500), 4)
        for session in range(sessions):
            self.begin(session)
        for number in range(count):
            self.add(number, number * sessions // count, OLD_MS + number)
        self._db.commit()
        self._next = count

    def say(self, count: int) -> range:
        numbers = range(self._next, self._next + count)
        for number in numbers:
            self.add(number, 1, int(time.time() * 1000))
        self._db.commit()
        self._next += count
        return numbers

    def begin(self, session: int) -> None:
        raise NotImplementedError

    def add(self, number: int, session: int, at: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._db.close()


class OpenCode(_Database):
    tool, talk, schema = "opencode", "opencode-ses_1", SCHEMA

    def __init__(self, user: Path, size: int) -> None:
        super().__init__(user / ".local" / "share" / "opencode" / "opencode.db", size)

    def begin(self, session: int) -> None:
        row = (f"ses_{session}", "p", None, "Talk", "/w", OLD_MS, OLD_MS)
        self._db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def add(self, number: int, session: int, at: int) -> None:
        key, whose = f"{number:08}", f"ses_{session}"
        message = (f"msg_{key}", whose, at, at, json.dumps({"role": "user"}))
        self._db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", message)
        said = json.dumps({"type": "text", "text": f"message {number} {WORDS}"})
        self._db.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (f"prt_{key}", f"msg_{key}", whose, at, at, said)
        )


class Cursor(_Database):
    """Each bubble is named in its conversation's row, which is written again."""

    tool, talk = "cursor", "cursor-c1"
    schema = (
        "PRAGMA journal_mode = WAL; CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"
    )

    def __init__(self, user: Path, size: int) -> None:
        self._bubbles: dict[int, list[str]] = {}
        super().__init__(user / ".config" / "Cursor" / "User" / "globalStorage" / "state.vscdb", size)
        for session in self._bubbles:
            self._name(session)
        self._db.commit()

    def begin(self, session: int) -> None:
        self._bubbles[session] = []

    def add(self, number: int, session: int, at: int) -> None:
        key = f"b{number:08}"
        self._bubbles[session].append(key)
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at // 1000))
        bubble = {"bubbleId": key, "type": 1, "text": f"message {number} {WORDS}", "createdAt": when}
        self._put(f"bubbleId:c{session}:{key}", bubble)
        if at > OLD_MS + 10**9:  # while it is followed
            self._name(session)

    def _name(self, session: int) -> None:
        headers = [{"bubbleId": one, "type": 1} for one in self._bubbles[session]]
        composer = {"composerId": f"c{session}", "createdAt": OLD_MS, "fullConversationHeadersOnly": headers}
        self._put(f"composerData:c{session}", composer)

    def _put(self, key: str, value: Any) -> None:
        self._db.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(value)))


class Listener:
    """A client that has the session open. `came`: number of a message -> when it was told of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.came: dict[int, float] = {}
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._client.hang_up()
        self._thread.join()

    def until(self, numbers: range) -> None:
        until = time.monotonic() + _TOLD_S
        while missing := [one for one in numbers if one not in self.came]:
            if time.monotonic() > until:
                raise SystemExit(f"{len(missing)} messages were not told, the first of them {missing[0]}")
            time.sleep(0.01)

    def _listen(self) -> None:
        while True:
            try:
                told: dict[str, Any] = self._client.notification("session/changed")
            except (ConnectionError, OSError, ValueError):
                return
            now = time.monotonic()
            for change in told["changes"]:
                for message in change.get("messages", ()):
                    self.came[int(message["content"].split()[1])] = now


@dataclass(frozen=True)
class Cost:
    """`told_s`: of each message. `share`: of a core. `read`: bytes for each message."""

    told_s: list[float]
    share: float
    read: float


class Followed:
    """A daemon that follows a source of so many bytes, and a client that has the session open that grows."""

    def __init__(self, kind: type[Source], size: int, held: ExitStack) -> None:
        folder = held.enter_context(scratch())
        self._source = held.enter_context(closing(kind(folder / "user", size)))
        (folder / "home").mkdir()
        config = f'[follow]\ntools = ["{kind.tool}"]\n'
        home = held.enter_context(Home(folder / "home", config, env={"HOME": str(folder / "user")}))
        assert home.process is not None
        self._pid = home.process.pid
        client = home.client(600.0)
        begun = time.monotonic()
        while not any(one["sessionId"] == kind.talk for one in client.call("session/list", limit=1000)["sessions"]):
            time.sleep(0.1)
        while client.call("daemon/follow")["behind"]:
            time.sleep(0.1)
        self.first_s = time.monotonic() - begun
        """How long its first import took."""
        client.call("session/open", sessionId=kind.talk, limit=1)
        self._listener = held.enter_context(closing(Listener(client)))
        self._listener.until(self._source.say(1))  # it was read before it was kept
        self.rest()

    def rest(self) -> None:
        """Wait until everything that was written is in the index, and compared at leisure."""
        used, read, until = -1.0, -MB, time.monotonic() + 600
        while (self._used() - used > 0.03 or self._read() - read > 64 * KIB) and time.monotonic() < until:
            used, read = self._used(), self._read()
            time.sleep(_AT_REST_S)

    def grow(self, counts: list[int], pause: float) -> Cost:
        """Write so many messages at a time."""
        wrote: dict[int, float] = {}
        begun, cpu, read = time.monotonic(), self._used(), self._read()
        for count in counts:
            numbers = self._source.say(count)
            wrote |= dict.fromkeys(numbers, time.monotonic())
            time.sleep(pause)
        for number in wrote:
            self._listener.until(range(number, number + 1))
        share = (self._used() - cpu) / (time.monotonic() - begun)
        told = [self._listener.came[one] - at for one, at in wrote.items()]
        return Cost(told, share, (self._read() - read) / len(wrote))

    def resident(self) -> int:
        return next(
            int(line.split()[1]) * KIB
            for line in Path(f"/proc/{self._pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        )

    def _used(self) -> float:
        """Seconds of the processor, of the daemon and of its processes that have ended: not of the one that searches by meaning, which
        is still at work on what came in.
        """
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def _read(self) -> int:
        return int(Path(f"/proc/{self._pid}/io").read_text().split()[1])


def growing(scale: Scale) -> Iterator[Row]:
    """Sources of 10 MB, and of so many times that."""
    base = min(_SMALL_MB, scale.large_file_bytes)
    sizes = [base, *(base * times for times in scale.growth)] if scale.peers else [base]
    kinds: list[type[Source]] = [ClaudeCode, OpenCode, Cursor]
    for kind in kinds:
        smallest: dict[str, float] = {}
        for size in sizes:
            yield from _rows(scale, kind, size, smallest)


def _rows(scale: Scale, kind: type[Source], size: int, smallest: dict[str, float]) -> Iterator[Row]:
    """`smallest`: the medians of the smallest source, by pace; empty for that one itself."""
    count = max(2, round(scale.idle_s))
    paces = {
        "one a second": ([1] * count, min(1.0, scale.idle_s)),
        "ten a second": ([1] * (5 * count), 0.1),
        "a thousand at once": ([1000 if scale.peers else 20] * 3, min(5.0, scale.idle_s)),
    }
    with ExitStack() as held:
        followed = Followed(kind, size, held)
        what = f"{kind.tool}, {size / MB:,.0f} MB"
        for pace, (counts, pause) in paces.items():
            cost = followed.grow(counts, pause)
            median, slowest = statistics.median(cost.told_s), max(cost.told_s)
            against = smallest.setdefault(pace, median)
            yield Row(
                f"{what}, {pace}: told after",
                f"p50 {median:.2f} s, slowest {slowest:.2f} s",
                "" if against == median else f"the smallest source: {against:.2f} s",
                "" if against == median else f"{median / max(against, 0.01):.2f}",
                "< 0.3 s, < 1.5 s",
                median < 0.3 and slowest < 1.5,
            )
            if pace == "one a second":
                read = f"{100 * cost.share:.1f} % of a core, {cost.read / KIB:.0f} KiB read for each"
                met = cost.share <= 0.05 and cost.read <= 64 * KIB + len(WORDS)
                yield Row(f"{what}, {pace}: cost", read, aim="<= 5 %, <= 64 KiB and what was written", met=met)
            followed.rest()
        yield Row(
            f"{what}: memory; first import", f"{followed.resident() / MB:,.0f} MB; {followed.first_s:.1f} s",
            aim="< 200 MB", met=followed.resident() < 200 * MB,
        )  # fmt: skip
