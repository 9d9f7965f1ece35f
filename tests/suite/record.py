"""What a run of pytest found, test by test, as a file that outlives the run.

Each line is a JSON object: one phase of one test as soon as it has ended, so that a run that is cut off leaves what it knew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest


class Recorder:
    """A plugin of the process that shows the results; those that only run tests have no use for it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace")

    def pytest_configure(self, config: pytest.Config) -> None:
        self._write({"root": str(config.rootpath)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = [report.longreprtext, *(f"--- {title}\n{text}" for title, text in report.sections)]
        self._write(
            {
                "test": report.nodeid,
                "outcome": report.outcome,
                "called": report.when == "call",
                "seconds": round(report.duration, 3),
                "said": "\n".join(said) if report.failed else "",
            }
        )

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_unconfigure(self) -> None:
        self._file.close()


@dataclass
class Record:
    """`root`: where the names of the tests begin. `failed`: test -> all that it said. `seconds`: test -> how long it took, with what it sets up and tears down. A test is in one
    of `passed`, `failed` and `skipped`, or in none if it did not come to its end.
    """

    root: Path = Path()
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        found = cls()
        for line in path.read_text(encoding="utf-8").splitlines():
            match json.loads(line):
                case {"root": root}:
                    found.root = Path(root)
                case phase:
                    found._add(phase)
        found.passed -= found.failed.keys()
        found.skipped -= found.failed.keys()
        return found

    def _add(self, phase: dict[str, object]) -> None:
        test, outcome = str(phase["test"]), phase["outcome"]
        self.seconds[test] = self.seconds.get(test, 0.0) + float(str(phase["seconds"]))
        if outcome == "failed":
            self.failed[test] = "\n".join(filter(None, (self.failed.get(test), str(phase["said"]))))
        elif outcome == "skipped":
            self.skipped.add(test)
        elif phase["called"]:
            self.passed.add(test)

    @property
    def ran(self) -> set[str]:
        return self.passed | self.failed.keys()


def main(arguments: Sequence[str]) -> int:
    """`python -m tests.suite.record FILE [pytest arguments]`: pytest, with its record in FILE."""
    path, *rest = arguments
    return int(pytest.main(rest, plugins=[Recorder(Path(path))]))


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
