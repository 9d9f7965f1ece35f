"""What following other tools costs: `python -m tests.bench.bench_follow [files ...] [--seconds 60] [--write docs/performance.md]`,
1 and 10,000 files by default.

A home with so many files of Claude Code, six messages each, is followed by a daemon: the first import, a start with all of
them known, the processor's share while nothing is written, the most memory, and how long a written message takes until
`sessiond show` prints it. Not a test; prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.report import MB, peak_bytes, peak_of_all, until_quiet, write_section
from tests.home import Home

CONFIG = '[follow]\ntools = ["claude-code"]\n'
MESSAGES = 6
WRITES = 7


def record(session: str, number: int) -> str:
    role = "user" if number % 2 else "assistant"
    return json.dumps({
        "type": role, "uuid": f"{session}-{number}", "parentUuid": f"{session}-{number - 1}" if number > 1 else None,
        "sessionId": session, "cwd": "/w", "version": "2.1", "timestamp": f"2026-11-22T14:00:{number:02d}.000Z",
        "message": {"role": role, "content": f"message {number} of {session}"},
    }) + "\n"  # fmt: skip


def write_files(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        session = f"s{number:06d}"
        text = "".join(record(session, nth) for nth in range(1, MESSAGES + 1))
        (folder / f"{session}.jsonl").write_text(text)


def shown(home: Home, session: str) -> str:
    command = [sys.executable, "-m", "sessiond", "show", f"claude-code-{session}"]
    return subprocess.run(command, env=home.env, capture_output=True, text=True, check=False).stdout


def seconds_until_shown(home: Home, path: Path, number: int) -> float:
    """From a write of a message until a command prints it, the command included."""
    begun = time.perf_counter()
    with path.open("a") as file:
        file.write(record(path.stem, number))
    while f"message {number} of" not in shown(home, path.stem):
        if time.perf_counter() - begun > 60:
            raise SystemExit("the message was not followed")
    return time.perf_counter() - begun


def own_cpu_seconds(pid: int) -> float:
    """Of the daemon alone: the processes of the extra `semantic` may still be at work on what was imported."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def count_of(home: Home) -> int:
    return sum(1 for name in os.listdir(home.path / "data" / "sessions") if name.endswith(".jsonl"))


def followed(count: int, seconds: float) -> str:
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as scratch:
        user = Path(scratch) / "user"
        folder = user / ".claude" / "projects" / "-w"
        write_files(folder, count)
        (Path(scratch) / "home").mkdir()
        home = Home(Path(scratch) / "home", CONFIG, env={"HOME": str(user)})
        begun = time.perf_counter()
        with home:
            while count_of(home) < count:
                time.sleep(0.3)
            first = time.perf_counter() - begun
            assert home.process is not None
            until_quiet(home.process.pid)
            peak, own = peak_of_all(home.process.pid), peak_bytes(home.process.pid)
        with home:
            assert home.process is not None
            until_quiet(home.process.pid)
            start = own_cpu_seconds(home.process.pid)
            time.sleep(seconds)
            idle = (own_cpu_seconds(home.process.pid) - start) / seconds
            took = [seconds_until_shown(home, folder / "s000000.jsonl", MESSAGES + nth) for nth in range(1, WRITES + 1)]
            peak = max(peak, peak_of_all(home.process.pid))
    return (
        f"| {count:,} | {first:.1f} s | {start:.2f} s of CPU | {100 * idle:.2f} % of a core | {own / MB:.0f} MB, with its processes {peak / MB:.0f} MB | "
        f"{min(took):.2f} to {max(took):.2f} s, median {statistics.median(took):.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=int, nargs="*", default=[1, 10_000])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [
        f"A home with so many files of Claude Code ({MESSAGES} messages each). CPU is what the daemon takes while nothing",
        f"is written, over {options.seconds:.0f} s (aim: at most 0.5 % of a core); the time is from a write until `sessiond show`",
        "prints the message, the command included. Memory is the most that the daemon had (aim: below 300 MB).",
        "",
        "| files | first import | start with all of them known | CPU while nothing is written | memory at most | a new message is shown after |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
        *(followed(count, options.seconds) for count in options.files),
    ]  # fmt: skip
    print("\n".join(lines))
    if options.write:
        write_section(options.write, "tests.bench.bench_follow", "Following", lines)


if __name__ == "__main__":
    main()
