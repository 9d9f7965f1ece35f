"""What following a large file costs while it grows: `python -m tests.bench.bench_growth [MB ...] [--seconds 20] [--write docs/performance.md]`,
10 and 100 MB by default.

A Claude Code file of so many MB is followed. It grows by one record a second, by ten a second, and by a thousand at once; a client
that has the session open says when each message came. Not a test; prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.bench.report import MB, write_section
from tests.home import Client, Home

CONFIG = '[follow]\ntools = ["claude-code"]\n'
SESSION = "0f0c1f8e-2222-4333-8444-555555555555"
WORDS = "the quick brown fox jumps over the lazy dog and comes back to look again " * 28


def record(number: int) -> bytes:
    role = "user" if number % 2 else "assistant"
    said = {
        "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None,
        "sessionId": SESSION, "cwd": "/w", "version": "2.1",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "message": {"role": role, "content": f"message {number} {WORDS}"},
    }  # fmt: skip
    return json.dumps(said).encode() + b"\n"


class Listener:
    """A client that has the session open. `came`: number of a message -> when it was told of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.came: dict[int, float] = {}
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._client.hang_up()
        self._thread.join()

    def _listen(self) -> None:
        while True:
            try:
                told: dict[str, Any] = self._client.notification("session/changed")
            except (ConnectionError, OSError, ValueError):
                return
            now = time.monotonic()
            messages = [one for change in told["changes"] for one in change.get("messages", ())]
            for message in messages:
                self.came[int(message["content"].split()[1])] = now


def used(pid: int) -> float:
    """Seconds of the processor, of the daemon and of its processes that have ended: not of the one that searches by meaning, which is
    still at work on what came in.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def until_quiet(pid: int) -> None:
    before, until = -1.0, time.monotonic() + 600
    while (now := used(pid)) - before > 0.03 and time.monotonic() < until:
        before = now
        time.sleep(1)


def read_bytes(pid: int) -> int:
    """Bytes that the process has read, from files and elsewhere."""
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def resident(pid: int) -> int:
    return next(
        int(line.split()[1]) * 1024
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    )


def grown(
    path: Path, first: int, counts: list[int], pause: float, listener: Listener, pid: int
) -> tuple[list[float], float, float]:
    """Append so many records at a time. Returns how long each took until it was told, the processor's share, bytes read for each."""
    wrote: dict[int, float] = {}
    number, begun, cpu, read = first, time.monotonic(), used(pid), read_bytes(pid)
    for count in counts:
        data = b"".join(record(one) for one in range(number, number + count))
        with path.open("ab") as file:
            file.write(data)
        now = time.monotonic()
        wrote |= dict.fromkeys(range(number, number + count), now)
        number += count
        time.sleep(pause)
    while any(one not in listener.came for one in wrote):
        if time.monotonic() - begun > 120:
            raise SystemExit(f"not told: {[one for one in wrote if one not in listener.came][:5]}")
        time.sleep(0.01)
    share = (used(pid) - cpu) / (time.monotonic() - begun)
    took = [listener.came[one] - at for one, at in wrote.items()]
    return took, share, (read_bytes(pid) - read) / len(wrote)


def followed(size: int, seconds: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as scratch:
        user = Path(scratch) / "user"
        path = user / ".claude" / "projects" / "-w" / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        number = 1
        with path.open("wb") as file:
            while file.tell() < size * MB:
                file.write(record(number))
                number += 1
        (Path(scratch) / "home").mkdir()
        home = Home(Path(scratch) / "home", CONFIG, env={"HOME": str(user)})
        with home:
            assert home.process is not None
            pid = home.process.pid
            client = home.client(300.0)
            begun = time.monotonic()
            while not client.call("session/list")["sessions"]:
                time.sleep(0.2)
            first = time.monotonic() - begun
            until_quiet(pid)
            client.call("session/open", sessionId=f"claude-code-{SESSION}", limit=1)
            listener = Listener(client)
            # The file was read before it was kept.
            with path.open("ab") as file:
                file.write(record(number))
            while number not in listener.came:
                time.sleep(0.05)
            until_quiet(pid)
            number += 1
            lines = []
            for name, counts, pause in (
                ("one a second", [1] * seconds, 1.0),
                ("ten a second", [1] * (5 * seconds), 0.1),
                ("a thousand at once", [1000] * 3, 5.0),
            ):
                took, share, read = grown(path, number, counts, pause, listener, pid)
                number += sum(counts)
                lines.append(
                    f"| {size:,} MB | {name} | {statistics.median(took):.2f} s | {max(took):.2f} s | {100 * share:.1f} % | "
                    f"{read / 1024:.1f} KiB | {resident(pid) / MB:.0f} MB |"
                )
                print(lines[-1], flush=True)
                until_quiet(pid)
            listener.leave()
            print(f"{size} MB: first import {first:.1f} s")
            return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [
        "A Claude Code file that grows while it is followed, from a write until a client that has the session open is told.",
        "Processor: of the daemon and its processes, while it is written. Read: bytes for each record of about 2 KiB.",
        "",
        "| file | grows by | median | slowest | of a core | read for each | memory |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: |",
        *(line for size in options.sizes for line in followed(size, options.seconds)),
    ]
    print("\n".join(lines))
    if options.write:
        write_section(options.write, "tests.bench.bench_growth", "A large file that grows", lines)


if __name__ == "__main__":
    main()
