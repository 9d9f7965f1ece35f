"""The benchmarks: every figure next to its limit or peer, interleaved in one run, as ratios with their spread.

    python -m tests.bench.run [--only NAME ...] [--quick | --smoke] [--python PATH ...] [--write docs/performance.md]

Machines differ and are noisy, so nothing here is a test: only ratios of medians from the same run mean anything. `--smoke`
runs everything once on tiny data, without the peers that must be installed, to check that it runs. `--write` replaces the
rows of the same name in the file's table, and leaves everything else as it is. TMPDIR decides which disk is measured.
`--python` also measures with each of these interpreters, which must have this checkout installed (`PATH -m pip install -e
.`); their rows name them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import agent_host, durable, following, footprint, reading, start, ways
from tests.bench.measure import FULL, QUICK, SMOKE, Row, Scale


def appends(scale: Scale) -> Iterator[Row]:
    for bench in (durable.one_client, ways.through_the_relay, ways.over_tcp, ways.attended):
        yield from bench(scale)


BENCHES: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "append": appends,
    "length": durable.length,
    "many": durable.many_clients,
    "slow-disk": durable.slow_disk,
    "real": durable.real,
    "spawn": start.spawned,
    "large-file": start.large_file,
    "many-bytes": start.many_bytes,
    "killed": start.killed,
    "relay": start.relayed,
    "open": reading.opening,
    "list": reading.listing,
    "attached": reading.attached,
    "memory": footprint.resident,
    "idle": footprint.idle,
    "disk": footprint.disk,
    "windows": agent_host.windows,
    "follow": following.growing,
}
BEGIN, END = "<!-- tests.bench.run: begin -->", "<!-- tests.bench.run: end -->"
_HEAD = "| | what | sessiond | against | ratio: median (lowest to highest) | aim | reached | load |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"


def line(name: str, row: Row) -> str:
    """`load`: what else the machine was busy with, as its load average of the last minute."""
    reached = {True: "yes", False: "**no**", None: ""}[row.met]
    load = os.getloadavg()[0]
    return f"| {name} | {row.what} | {row.ours} | {row.against} | {row.ratio} | {row.aim} | {reached} | {load:.0f} |"


def write(path: Path, measured: dict[str, list[str]]) -> None:
    """Replace what was measured between the two marks of the file; the order is that of BENCHES."""
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    lines: dict[str, list[str]] = {}
    for one in old.splitlines():
        name = one.removeprefix("| ").partition(" |")[0]
        if one.startswith("| ") and name in BENCHES:
            lines.setdefault(name, []).append(one)
    lines |= measured
    table = "\n".join(one for name in BENCHES for one in lines.get(name, []))
    pythons = ", ".join([platform.python_version(), *sorted(set(re.findall(r", Python (3\.\S+) \|", table)))])
    machine = f"Python {pythons}, {os.cpu_count()} cores, {platform.system()}, {datetime.date.today():%Y-%m-%d}"
    path.write_text(f"{before}{BEGIN}\n\n{machine}.\n\n{_HEAD}{table}\n\n{END}{after}")


def elsewhere(python: str, names: list[str], scale: list[str]) -> Iterator[tuple[str, str]]:
    """(bench, line) of the same run by another interpreter."""
    said = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.strip()
    command = [python, "-m", "tests.bench.run", *scale, "--only", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for one in child.stdout:
            cells = one.rstrip("\n").split("|")
            cells[2] = f"{cells[2].rstrip()}, {said} "
            yield cells[1].strip(), "|".join(cells)
    if child.returncode:
        raise RuntimeError(f"{python} ended with {child.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_const", const=["--quick"], default=[], dest="scale")
    parser.add_argument("--smoke", action="store_const", const=["--smoke"], dest="scale")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES), metavar="NAME")
    parser.add_argument("--python", nargs="+", default=[], metavar="PATH")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    scale = {"--quick": QUICK, "--smoke": SMOKE}.get("".join(options.scale), FULL)
    measured: dict[str, list[str]] = {}
    for name in options.only:
        began = time.monotonic()
        measured[name] = []
        for row in BENCHES[name](scale):
            measured[name].append(line(name, row))
            print(measured[name][-1], flush=True)
        print(f"({name}: {time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    for python in options.python:
        for name, one in elsewhere(python, options.only, options.scale):
            measured[name].append(one)
            print(one, flush=True)
    if options.write:
        write(options.write, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
