"""Writes what the tests know of docs/promises.md: `python -m scripts.promises`

- the column `tier`: which runs hold each promise. The tiers are those of the tests that the row names: `unit` is in every run,
  `run` in those that judge a change, `all` in the long ones.
- docs/planted-bugs.md: the planted bugs that each promise rests on, which are those that one of its tests must catch.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.planted.mutations import MUTATIONS
from tests.suite.tiers import Tier, tiers_in

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "promises.md"
BUGS_PAGE = ROOT / "docs" / "planted-bugs.md"
_COLUMN = 2
_TEST = re.compile(r"`(tests/[\w/.]+)`")
_HEAD = """\
<!-- Written by scripts/promises.py. -->

# Planted bugs

Each line is a mistake that is put into a copy of the program, where one of a few named tests must
fail. Under each [promise](promises.md) stand those that its tests must catch; at the end, those
that other tests must catch. A promise that is missing here rests on tests that no planted bug has
tried.
"""


def tests_of(row: str) -> list[str]:
    """The test files and folders that a row of the table names; an empty list for any other line."""
    cells = _cells(row)
    return [name.rstrip("/.") for name in _TEST.findall(cells[1])] if len(cells) > _COLUMN else []


def with_tiers(page: str) -> str:
    """The page with its tier column brought up to date."""
    return "\n".join(_row(line) for line in page.split("\n"))


def bugs_page(page: str) -> str:
    """The text of docs/planted-bugs.md, for that of docs/promises.md."""
    return "\n".join([_HEAD, *_lists(page)])


def _lists(page: str) -> Iterator[str]:
    others = {bug.name for bug in MUTATIONS}
    for row in page.split("\n"):
        tests = tests_of(row)
        bugs = [bug.name for bug in MUTATIONS if any(_is_in(test, tests) for test in bug.tests)]
        others.difference_update(bugs)
        if bugs:
            yield from _list(_cells(row)[0].strip(), bugs)
    yield from _list("Others", [bug.name for bug in MUTATIONS if bug.name in others])


def _list(head: str, bugs: list[str]) -> Iterator[str]:
    yield textwrap.fill(f"**{head}**", 100) + "\n"
    yield from (textwrap.fill(f"- {bug}", 100, subsequent_indent="  ") for bug in bugs)
    yield ""


def _is_in(test: str, named: list[str]) -> bool:
    return any(test == one or test.startswith(f"{one}/") for one in named)


def _cells(row: str) -> list[str]:
    return row.strip("|").split(" | ") if row.startswith("|") else []


def _row(line: str) -> str:
    tests = tests_of(line)
    if not tests:
        return line
    cells = _cells(line)
    cells[_COLUMN] = ", ".join(map(str, sorted(set[Tier]().union(*map(tiers_in, tests)))))
    return "|" + " | ".join(cells) + "|"


if __name__ == "__main__":
    PAGE.write_text(with_tiers(PAGE.read_text()))
    BUGS_PAGE.write_text(bugs_page(PAGE.read_text()))
