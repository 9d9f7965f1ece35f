"""Runs the loads and prints the table."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from tests.bench.measure import QUIET, house, ms, p50, p99
from tests.fairness.light import KINDS, Times, beside
from tests.fairness.loads import FULL, LOADS, SMOKE, Load, Scale

BEGIN, END = "<!-- tests.fairness: begin -->", "<!-- tests.fairness: end -->"
_HEAD = (
    "| | the heavy client | the light one's slowest | " + " | ".join(f"{kind}: p50, p99, slowest" for kind in KINDS) + " | load |\n"
    "| --- | --- | --- | " + " | ".join("---" for _ in KINDS) + " | --- |\n"
)  # fmt: skip


def measured(load: Load, scale: Scale) -> tuple[str, Times]:
    """The work of the heavy client, and its effect on the light one."""
    with house(QUIET) as home:
        steps = load(home, scale)
        said = [next(steps)]
        with beside(home) as times:
            said += list(steps)
        home.kill()  # what is not saved by now would only make its end long
    return ", ".join(said), times


def line(name: str, said: str, times: Times) -> str:
    slowest = max(max(one) for one in times.values())
    cells = [f"{ms(p50(times[kind]))}, {ms(p99(times[kind]))}, {ms(max(times[kind]))}" for kind in KINDS]
    return f"| {name} | {said} | {ms(slowest)} | {' | '.join(cells)} | {os.getloadavg()[0]:.0f} |"


def write(path: Path, measured: dict[str, list[str]]) -> None:
    """Replace what was measured between the two marks of the file; every other row stays. The order is that of LOADS."""
    before, _, rest = path.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    lines: dict[str, list[str]] = {}
    for one in old.splitlines():
        name = one.removeprefix("| ").partition(" |")[0]
        if one.startswith("| ") and name in LOADS:
            lines.setdefault(name, []).append(one)
    lines |= measured
    table = "\n".join(one for name in LOADS for one in lines.get(name, []))
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}, {datetime.date.today():%Y-%m-%d}"
    path.write_text(f"{before}{BEGIN}\n\n{machine}.\n\n{_HEAD}{table}\n\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fairness", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(LOADS), default=list(LOADS), metavar="LOAD")
    parser.add_argument("--smoke", action="store_const", const=SMOKE, default=FULL, dest="scale")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: dict[str, list[str]] = {}
    print(_HEAD, end="", flush=True)
    for name in options.only:
        rows[name] = []
        for load in LOADS[name]:
            rows[name].append(line(name, *measured(load, options.scale)))
            print(rows[name][-1], flush=True)
    if options.write:
        write(options.write, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
