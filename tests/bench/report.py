"""Shared by the benchmarks of search and import: what a process cost, and their sections of docs/performance.md."""

from __future__ import annotations

import datetime
import os
import platform
import time
from pathlib import Path

MB = 1_000_000


def peak_bytes(pid: int) -> int:
    """The most that a process had resident so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def children(pid: int) -> list[int]:
    """The running children of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def peak_of_all(pid: int) -> int:
    """Of a process and its children, together: at most this much was resident."""
    found = 0
    for one in (pid, *children(pid)):
        try:
            found += peak_bytes(one)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
    return found


def cpu_seconds(pid: int) -> float:
    """Of a process and of its children, the running ones too."""
    ticks = 0
    for one in (pid, *children(pid)):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def until_quiet(pid: int, most_s: float = 60.0) -> float:
    """Wait until a daemon has done what was left to do (the index, a save, memory given back), at most so long. Seconds."""
    begun = time.monotonic()
    before = -1.0
    while (now := cpu_seconds(pid)) - before > 0.03 and time.monotonic() - begun < most_s:
        before = now
        time.sleep(1)
    return time.monotonic() - begun


def write_section(path: Path, name: str, heading: str, lines: list[str]) -> None:
    """Put a section between its own two marks, at the end of the file where it has none yet."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    load = os.getloadavg()[0]
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}, load {load:.1f}, {datetime.date.today():%Y-%m-%d}."
    section = "\n".join([begin, "", f"## {heading}", "", machine, "", *lines, "", end])
    text = path.read_text()
    before, mark, rest = text.partition(begin)
    if mark:
        path.write_text(before + section + rest.partition(end)[2])
    else:
        path.write_text(text.rstrip("\n") + "\n\n" + section + "\n")
