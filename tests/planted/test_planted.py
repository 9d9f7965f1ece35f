"""Detects checks that cannot fail: each planted bug, in a copy of the program, makes a test fail."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.planted.choice import NEAR, OTHERS, changed_since_release, chosen, commits
from tests.planted.mutations import MUTATIONS
from tests.planted.planting import Planted, plant
from tests.suite.tiers import Tier

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20
"""Some bugs make a test wait for what never comes. Without a bug none of the tests takes half of this."""
FAILED = 1
"""pytest's exit code where tests ran and some failed; everything else is a mistake in the table."""

_NO_SHRINKING = """
from hypothesis import Phase, settings

settings.register_profile("planted", phases=[Phase.explicit, Phase.generate])
settings.load_profile("planted")
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program and its tests, copied once; each bug gets links to this copy."""
    folder = tmp_path_factory.mktemp("planted")
    copy = folder / "original"
    for name in ("sessiond", "scripts", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("planted", "golden_data", "bench"))
    shutil.copytree(ROOT / "clients" / "browser", copy / "clients" / "browser")
    (copy / "clients" / "repl").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "conftest.py").write_text(_NO_SHRINKING)
    yield copy
    shutil.rmtree(folder)


def test_the_table_is_worth_its_name() -> None:
    """At least 25 bugs, each with its own name, each really a change of what is there once in its function, each with tests that exist."""
    assert len(MUTATIONS) >= 25
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)
    for one in MUTATIONS:
        assert one.old != one.new
        plant(one, ROOT / "sessiond")
        assert all((ROOT / test).exists() for test in one.tests if test.startswith("tests/")), one.name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bug" in metafunc.fixturenames:
        everyday = metafunc.config.option.tier == str(Tier.RUN)
        bugs = chosen(MUTATIONS, changed_since_release(), commits()) if everyday else MUTATIONS
        metafunc.parametrize("bug", bugs, ids=str)


def test_those_near_a_change_are_planted_and_ten_others_in_turn() -> None:
    """A change of the source that a bug is planted in, or of the tests that must notice it. In the end each had its turn."""
    bug = MUTATIONS[17]
    for changed in (bug.path, next(one for one in bug.tests if one.startswith("tests/"))):
        assert bug in chosen(MUTATIONS, {changed, "README.md"}, 3)
    turns = math.ceil(len(MUTATIONS) / OTHERS)
    assert {one.name for turn in range(turns) for one in chosen(MUTATIONS, set(), turn)} == {
        one.name for one in MUTATIONS
    }
    assert len(chosen(MUTATIONS, set(), 5)) == OTHERS
    everywhere = {one.path for one in MUTATIONS}
    turns = math.ceil(len(MUTATIONS) / NEAR)
    assert {len(chosen(MUTATIONS, everywhere, turn)) for turn in range(turns)} == {NEAR}
    assert {one.name for turn in range(turns) for one in chosen(MUTATIONS, everywhere, turn)} == {
        one.name for one in MUTATIONS
    }


def test_a_planted_bug_is_caught(bug: Planted, original: Path) -> None:
    """The few tests that are named for it fail, because of it, in a copy of the program that has it."""
    file, text = plant(bug, original / "sessiond")
    copy = original.parent / str(bug)
    shutil.copytree(original, copy, copy_function=os.link)
    planted = copy / file.relative_to(original)
    planted.unlink()  # it is a link to the original
    planted.write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        f"timeout={PATIENCE_S}",
        *bug.tests,
    ]
    env = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy),
        # Some show only after as many tries as a long run makes, from the seeds that are known to do.
        "SESSIOND_BUDGET": "10",
        "SESSIOND_SEED": "0",
    }
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=100, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as over:  # a thread of a test that was given up keeps pytest from ending
        code, out, err = None, over.stdout or b"", over.stderr or b""
    # Some bugs make a test hang. If its time is up while pytest reports the test before, pytest ends with an error of its own.
    noticed = code == FAILED or b"Failed: Timeout (>" in out
    assert noticed, f"nobody noticed ({code}):\n{(out[-3000:] + err[-1000:]).decode(errors='replace')}"
    shutil.rmtree(copy)
