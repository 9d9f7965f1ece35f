"""What an import of Claude Code transcripts costs: `python -m tests.bench.bench_import [megabytes] [--write docs/performance.md]`,
500 by default.

Megabytes per second, the peak memory of daemon and command line together (the most that each had resident), and how long
another client's requests took meanwhile. Not a test; prints a table. The transcripts are generated, the same every time, in
the proportions of real ones: 1.8 KB a record, two fifths of it text that is searched.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.report import MB, cpu_seconds, peak_bytes, peak_of_all, write_section
from tests.home import Client, Home

FILE_BYTES = 2 * MB
LARGE_FILE_BYTES = 100 * MB
"""One file is as large as this, where the whole is large enough for it."""
_SYLLABLES = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]


class Words:
    """Text as people and models write it: a few words often, most of them seldom."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice((1, 2, 2, 3)))) for _ in range(20_000)
        ]
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))

    def some(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def prose(self, count: int) -> str:
        return " ".join(self.some(count)).capitalize() + "."

    def code(self, lines: int) -> str:
        words = iter(self.some(3 * lines))
        return "\n".join(
            f'    {a}_{b} = self.{c}("src/{a}/{c}.py")' for a, b, c in zip(words, words, words, strict=True)
        )


def records(words: Words, session: str, size: int) -> Iterator[bytes]:
    """Lines of a transcript of about `size` bytes: a question, then calls and results in turn, then an answer."""
    written, number = 0, 0
    while written < size:
        for role, content, more in _turn(words, number):
            number += 1
            line = json.dumps({
                "parentUuid": f"{session[:8]}-{number - 1:07d}" if number > 1 else None, "isSidechain": False, "userType": "external",
                "cwd": "/srv/project", "sessionId": session, "version": "2.0.1", "gitBranch": "main", "type": role,
                "message": {"role": role, "content": content, **({"model": "a-model"} if role == "assistant" else {})},
                "uuid": f"{session[:8]}-{number:07d}", "timestamp": f"2025-10-{1 + number // 86400 % 28:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
                **more,
            }).encode() + b"\n"  # fmt: skip
            written += len(line)
            yield line


def _turn(words: Words, number: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    yield "user", words.prose(30), {}
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 20_000,
        "cache_read_input_tokens": 15_000,
        "output_tokens": 300,
    }
    for call in range(4):
        name = f"toolu_{number:08d}{call}"
        spent = {"requestId": f"req_{name}", "usage": usage}
        yield "assistant", [{"type": "text", "text": words.prose(40)}], spent
        path = "/".join(("/srv/project", *words.some(2)))
        yield "assistant", [{"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": path}}], spent
        text = words.code(30)
        result = {"tool_use_id": name, "type": "tool_result", "content": text}
        yield (
            "user",
            [result],
            {"toolUseResult": {"type": "text", "file": {"filePath": path, "content": text, "numLines": 30}}},
        )
    yield "assistant", [{"type": "text", "text": words.prose(120)}], {}


def write_transcripts(folder: Path, size: int) -> int:
    """Files of `size` bytes in all. How many bytes they have."""
    words = Words(4)
    folder.mkdir(parents=True)
    written = 0
    for number in itertools.count():
        if written >= size:
            return written
        this = LARGE_FILE_BYTES if number == 0 and size >= 4 * LARGE_FILE_BYTES else min(FILE_BYTES, size - written)
        session = f"{number:08x}-0000-4000-8000-000000000000"
        with (folder / f"{session}.jsonl").open("wb") as file:
            for line in records(words, session, this):
                file.write(line)
                written += len(line)
    raise AssertionError


def import_(home: Home, folder: Path) -> tuple[float, int, int, list[float], list[float]]:
    """Seconds, peak memory of the command line and of the daemon with its processes, and the latencies of another client
    before it and meanwhile.
    """
    assert home.process is not None
    other = home.client()
    other.call("session/new", sessionId="other", messages=[{"role": "user", "content": "hello"}])
    before = [timed(other, number) for number in range(150)]
    latencies: list[float] = []
    command = [sys.executable, "-m", "sessiond", "import", str(folder), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=home.env, stdout=subprocess.DEVNULL)
    peak = daemon = 0
    for number in itertools.count():
        if process.poll() is not None:
            break
        try:
            peak, daemon = max(peak, peak_bytes(process.pid)), max(daemon, peak_of_all(home.process.pid))
        except (FileNotFoundError, ProcessLookupError):
            break
        latencies.append(timed(other, number))
    if process.wait():
        raise SystemExit("the import failed")
    return time.perf_counter() - start, peak, daemon, before, latencies


def timed(client: Client, number: int) -> float:
    begun = time.perf_counter()
    ask(client, number)
    took = time.perf_counter() - begun
    time.sleep(0.01)
    return took


def ask(client: Client, number: int) -> None:
    match number % 3:
        case 0:
            client.call("session/append", sessionId="other", messages=[{"role": "user", "content": f"word {number}"}])
        case 1:
            client.call("session/read", sessionId="other", last=20)
        case _:
            client.call("session/list", limit=20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", type=float, nargs="?", default=500.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    size = int(options.megabytes * MB)
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as scratch:
        folder = Path(scratch) / "projects"
        written = write_transcripts(folder, size)
        os.sync()  # transcripts have been on the disk for long; else they are written to it in the middle of the measurement
        (Path(scratch) / "home").mkdir()
        with Home(Path(scratch) / "home") as home:
            assert home.process is not None
            idle = peak_bytes(home.process.pid)
            cpu = cpu_seconds(home.process.pid)
            seconds, client_peak, daemon_peak, before, latencies = import_(home, folder)
            cpu = cpu_seconds(home.process.pid) - cpu
            again = import_again(home, folder)
    lines = [
        f"{written / MB:.0f} MB of Claude Code transcripts.", "",
        "| what | measured | aim |", "| --- | --- | --- |",
        f"| imported, all of it searchable | {written / MB / seconds:.1f} MB/s in {seconds:.1f} s; {cpu:.1f} s of CPU: {2 * written / MB / cpu:.1f} MB/s if two cores were free | >= 20 MB/s |",
        f"| memory at the peak, command line and daemon with its processes | {(daemon_peak + client_peak) / MB:.0f} MB; command line {client_peak / MB:.0f}, daemon before it {idle / MB:.0f} | < 300 MB |",
        f"| {len(latencies)} requests of another client meanwhile | {spread(latencies)} | <= 50 ms |",
        f"| {len(before)} of the same before it | {spread(before)} | |",
        f"| the same again | {again:.1f} s, nothing new | |",
    ]  # fmt: skip
    print("\n".join(lines))
    if options.write:
        write_section(options.write, "tests.bench.bench_import", "Importing", lines)


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    took = (ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])
    return "median {:.1f} ms, p99 {:.1f} ms, slowest {:.1f} ms".format(*(1000 * one for one in took))


def import_again(home: Home, folder: Path) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "sessiond", "import", str(folder), "--json"]
    done = subprocess.run(command, env=home.env, check=True, capture_output=True)
    assert json.loads(done.stdout)["sessions"] == []
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
