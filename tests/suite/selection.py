"""Which tests pytest takes, and in what order.

`pytest` alone takes the tier `unit`; `--tier` takes another one. Files, folders and tests that are named are taken whole.

Several processes share the tests: each begins with an equal part of the list, and takes from the others when it has no more. So what
takes longest must not be at the end of any part. A file's tests stay together, because they often share what they set up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.suite import explore
from tests.suite.tiers import Tier, lowest_in, tier_of

ROOT = Path(__file__).resolve().parent.parent.parent
TIMES = ROOT / ".pytest_cache" / "times.json"
"""File -> the seconds that its tests took, when they were last run by `tests/run`."""


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=[str(one) for one in Tier],
        help="the tests to take: unit (as without any argument), run, or all (as where files are named)",
    )


class Selection:
    """A plugin of every process of a run."""

    def __init__(self, config: pytest.Config) -> None:
        # The first process decides, and tells the others with all its options.
        if config.option.tier is None:
            named = config.args_source is pytest.Config.ArgsSource.ARGS
            config.option.tier = str(Tier.ALL if named else Tier.UNIT)
        self._tier = Tier[config.option.tier.upper()]

    def pytest_report_header(self) -> str:
        return f"tier: {self._tier}, {explore.told()}"

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not collection_path.is_relative_to(ROOT / "tests"):
            return None
        return True if lowest_in(collection_path.relative_to(ROOT).as_posix()) > self._tier else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [one for one in items if tier_of(one.nodeid) > self._tier]
        if others:
            config.hook.pytest_deselected(items=others)
        taken = [one for one in items if tier_of(one.nodeid) <= self._tier]
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        items[:] = dealt(taken, _times(), processes) if processes > 1 else taken


def _times() -> dict[str, float]:
    try:
        return dict(json.loads(TIMES.read_text()))
    except (FileNotFoundError, ValueError):  # none yet, or cut off while it was written
        return {}


def dealt(items: Sequence[pytest.Item], seconds: Mapping[str, float], processes: int) -> list[pytest.Item]:
    """The items in as many parts of about the same number, in each of them first the files that take longest."""
    files = [list(group) for _, group in groupby(items, lambda one: one.nodeid.partition("::")[0])]
    files.sort(key=lambda group: seconds.get(group[0].nodeid.partition("::")[0], 0.0), reverse=True)
    parts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for group in files:
        min(parts, key=len).extend(group)
    return [one for part in parts for one in part]
