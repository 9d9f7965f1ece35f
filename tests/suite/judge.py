"""Runs the tests and judges the change: `python -m tests.suite.judge [pytest arguments]`.

A suite of thousands of tests with real editors, disks and daemons meets a race now and then, above all on a machine that is busy with
something else. A race is ours to mend, and it must not hide what else is good. So there are two looks:

1. All tests, several at a time. If none fails, the run has passed.
2. Each test that failed, once more: alone, one at a time, when everything else is over. One that fails again is broken, and the run
   fails. One that passes now is a race: it is printed with its first failure in full, and the run passes.

Three things keep that from becoming a way to live with races. More than MOST_RACES failures at the first look fail the run without a
second one. A test that was a race in the run before and is one again fails the run; the memory of that is beside pytest's own. And only
tests get a second look: an error while they are collected fails the run, as does anything else that pytest has an exit code for.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suite.record import Record
from tests.suite.selection import TIMES
from tests.suite.tiers import BUDGETS

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_RACES = 5
AT_A_TIME = 3
"""Also on two processors: most tests wait for a disk, an editor or a daemon."""
_FAILED = 1
"""The exit code of pytest that says that tests failed, and nothing worse."""


@dataclass
class Verdict:
    """`races`: test -> what it said when it failed; it passed at the second look. `repeated`: those of them that were races in the run
    before, too. `broken`: what failed twice, or was not looked at again.
    """

    races: dict[str, str] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    @property
    def good(self) -> bool:
        return not self.broken and not self.repeated


def judge(first: Record, again: Record, before: set[str]) -> Verdict:
    """`again`: the second look, empty if there was none. `before`: the races of the run before."""
    found = Verdict()
    for test, said in first.failed.items():
        if test in again.passed:
            found.races[test] = said
        else:
            found.broken.add(test)
    found.repeated = found.races.keys() & before
    return found


class Memory:
    """Which tests were races when they were last run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> set[str]:
        try:
            return set(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return set()

    def keep(self, first: Record, verdict: Verdict) -> None:
        """A test that was not run keeps its place."""
        races = sorted(self.read() - first.ran | verdict.races.keys())
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(races))


class Times:
    """How long the tests of each file took when they were last run, for the order of the next run."""

    def __init__(self, path: Path = TIMES) -> None:
        self._path = path

    def keep(self, record: Record) -> None:
        took: dict[str, float] = defaultdict(float)
        for test, seconds in record.seconds.items():
            took[test.partition("::")[0]] += seconds
        before = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({**before, **took}))


def look(*arguments: str) -> tuple[int, Record]:
    """pytest's exit code, and what it found."""
    with tempfile.TemporaryDirectory(prefix="sd-record-") as folder:
        path = Path(folder) / "record"
        path.touch()  # pytest may refuse to begin
        command = [sys.executable, "-m", "tests.suite.record", str(path), *arguments]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        return code, Record.read(path)


def main(arguments: Sequence[str], memory: Memory, times: Times) -> int:
    began = time.monotonic()
    code, first = look("-n", str(AT_A_TIME), "--dist", "worksteal", *arguments)
    again = Record()
    if code == _FAILED and 0 < len(first.failed) <= MOST_RACES:
        print(f"\nThe second look: {len(first.failed)} of the tests failed, each runs once more, alone.", flush=True)
        _, again = look("-n", "0", *(f"{first.root}/{test}" for test in first.failed))
    verdict = judge(first, again, memory.read())
    memory.keep(first, verdict)
    times.keep(first)
    show(verdict)
    show_budget(arguments, time.monotonic() - began)
    # In words that every reader of test runs knows.
    good = len(first.passed) + len(verdict.races)
    print(f"{good} passed, {len(verdict.broken)} failed, {len(first.skipped)} skipped", flush=True)
    if code not in (0, _FAILED):
        return code
    # Tests may fail where no single one is to blame.
    return 0 if verdict.good and (code == 0 or verdict.races) else _FAILED


def show_budget(arguments: Sequence[str], took_s: float) -> None:
    """What a tier took, beside what it may take."""
    for tier, budget in BUDGETS.items():
        if f"--tier={tier}" in arguments:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = used.ru_utime + used.ru_stime
            print(
                f"\n{tier}: {took_s:.0f} s of {budget.wall_s:g} s, {cpu_s:.0f} s of {budget.cpu_s:g} s of processor time"
            )


def show(verdict: Verdict) -> None:
    if len(verdict.broken) > MOST_RACES:
        print(f"\n{len(verdict.broken)} tests failed. Up to {MOST_RACES} would get a second look.")
    if verdict.races:
        print(f"\n=== passed at the second look: {len(verdict.races)}, each a race to mend ===")
    for test, said in verdict.races.items():
        print(f"\n--- {test}, at the first look:\n{said}")
    for test in sorted(verdict.repeated):
        print(f"\nA race in the run before, and again: {test}\nMend it: it gets no other second look.")
    for test in sorted(verdict.broken):
        print(f"BROKEN {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Memory(ROOT / ".pytest_cache" / "races.json"), Times()))
