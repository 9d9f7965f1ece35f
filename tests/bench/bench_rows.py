"""What following a large `opencode.db` costs while it grows: `python -m tests.bench.bench_rows [MB ...] [--seconds 20]`, 10 and 100 MB by
default.

The tool has it open, in WAL mode, and adds a message a second to one of its sessions, which have about a MB each; a client that
has that session open says when each message came. Not a test; prints a table.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests.bench.bench_growth import WORDS, Listener, read_bytes, resident, until_quiet, used
from tests.bench.report import MB
from tests.home import Home
from tests.importers.opencode_tables import SCHEMA

CONFIG = '[follow]\ntools = ["opencode"]\n'
OLD_MS = 1_780_000_000_000


def add(db: sqlite3.Connection, number: int, session: int, at: int) -> None:
    key = f"{number:08}"
    role = json.dumps({"role": "user"})
    db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (f"msg_{key}", f"ses_{session}", at, at, role))
    part = json.dumps({"type": "text", "text": f"message {number} {WORDS}"})
    db.execute(
        "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (f"prt_{key}", f"msg_{key}", f"ses_{session}", at, at, part)
    )


def filled(db: sqlite3.Connection, size: int) -> int:
    """A database of so many MB; the number of its next message."""
    db.executescript(SCHEMA)
    for session in range(size):
        row = (f"ses_{session}", "p", None, "Talk", "/w", OLD_MS, OLD_MS)
        db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    count = size * MB // (len(WORDS) + 500)
    for number in range(count):
        add(db, number, number * size // count, OLD_MS + number)
    db.commit()
    return count


def followed(size: int, seconds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as scratch:
        user = Path(scratch) / "user"
        path = user / ".local" / "share" / "opencode" / "opencode.db"
        path.parent.mkdir(parents=True)
        (Path(scratch) / "home").mkdir()
        with closing(sqlite3.connect(path)) as db:
            number = filled(db, size)
            with Home(Path(scratch) / "home", CONFIG, env={"HOME": str(user)}) as home:
                assert home.process is not None
                pid = home.process.pid
                client = home.client(300.0)
                while len(client.call("session/list", limit=1000)["sessions"]) < min(size, 1000):
                    time.sleep(0.2)
                until_quiet(pid)
                client.call("session/open", sessionId="opencode-ses_3", limit=1)
                listener = Listener(client)
                wrote: dict[int, float] = {}
                begun, cpu, read = time.monotonic(), used(pid), read_bytes(pid)
                for one in range(number, number + seconds):
                    add(db, one, 3, int(time.time() * 1000))
                    db.commit()
                    wrote[one] = time.monotonic()
                    time.sleep(1)
                while any(one not in listener.came for one in wrote):
                    time.sleep(0.01)
                share = (used(pid) - cpu) / (time.monotonic() - begun)
                took = [listener.came[one] - at for one, at in wrote.items()]
                each = (read_bytes(pid) - read) / len(wrote)
                line = (
                    f"| {size:,} MB | {statistics.median(took):.2f} s | {max(took):.2f} s | {100 * share:.1f} % | "
                    f"{each / MB:.2f} MB | {resident(pid) / MB:.0f} MB |"
                )
                print(line, flush=True)
                home.process.kill()  # the listener reads until then


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    print("| file | median | slowest | of a core | read for each | memory |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in options.sizes:
        followed(size, options.seconds)


if __name__ == "__main__":
    main()
