"""The judge itself: what fails a run, what is only printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.judge import MOST_RACES, Memory, Times, main

EVERY_OTHER_TIME = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_fails_every_other_time(number):
    mark = pathlib.Path(__file__).with_name(f"was here {{number}}")
    if not mark.exists():
        mark.touch()
        raise AssertionError(f"the first time of {{number}}")
    mark.unlink()
"""


class Suite:
    """A folder with tests of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a suite"
        self.folder.mkdir()
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        self._memory = Memory(folder / "memory" / "races.json")
        self._times = Times(folder / "memory" / "times.json")

    def add(self, name: str, text: str) -> None:
        (self.folder / f"test_{name}.py").write_text(text)

    def judge(self, *arguments: str) -> int:
        return main(["-n", "0", str(self.folder), "-p", "no:cacheprovider", *arguments], self._memory, self._times)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    made = Suite(tmp_path)
    made.add("good", "def test_good(): pass\n\ndef test_skipped():\n    import pytest\n    pytest.skip('not here')\n")
    return made


def test_a_run_without_a_failure_passes(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    assert suite.judge() == 0
    out = capfd.readouterr().out
    assert "second look" not in out
    assert out.endswith("\n1 passed, 0 failed, 1 skipped\n")


def test_a_broken_test_fails_the_run(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    """Beside one that is a race, too."""
    suite.add("broken", "def test_broken(): assert 1 == 2\n")
    suite.add("race", EVERY_OTHER_TIME.format(count=1))
    assert suite.judge() == 1
    out = capfd.readouterr().out
    assert "BROKEN test_broken.py::test_broken\n" in out
    assert out.endswith("\n2 passed, 1 failed, 1 skipped\n")


def test_a_test_that_fails_every_other_time_is_printed(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    """With its first failure in full, and the run passes."""
    suite.add("race", EVERY_OTHER_TIME.format(count=1))
    assert suite.judge() == 0
    _, _, races = capfd.readouterr().out.partition("=== passed at the second look: 1, each a race to mend ===")
    assert "test_race.py::test_fails_every_other_time[0]" in races
    assert "AssertionError: the first time of 0" in races
    assert races.endswith("\n2 passed, 0 failed, 1 skipped\n")


def test_as_many_races_as_may_be_pass(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    suite.add("race", EVERY_OTHER_TIME.format(count=MOST_RACES))
    assert suite.judge() == 0
    assert f"passed at the second look: {MOST_RACES}," in capfd.readouterr().out


def test_one_more_fails_the_run(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    suite.add("race", EVERY_OTHER_TIME.format(count=MOST_RACES + 1))
    assert suite.judge() == 1
    assert f"\n1 passed, {MOST_RACES + 1} failed, 1 skipped\n" in capfd.readouterr().out


def test_a_race_in_two_runs_that_follow_each_other_fails_the_second(
    suite: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where other tests were run in between. A run in which it passed at once is the end of it."""
    suite.add("race", EVERY_OTHER_TIME.format(count=1))
    assert suite.judge() == 0
    assert suite.judge("-k", "good") == 0
    assert suite.judge() == 1
    assert "A race in the run before, and again: test_race.py::test_fails_every_other_time[0]" in capfd.readouterr().out
    suite.add("race", "def test_fails_every_other_time(): pass\n")
    assert suite.judge() == 0


def test_a_failure_while_a_test_is_torn_down_counts(suite: Suite) -> None:
    suite.add(
        "untidy",
        "import pytest\n\n@pytest.fixture\ndef untidy():\n    yield\n    raise OSError('left something')\n\ndef test_it(untidy): pass\n",
    )
    assert suite.judge() == 1


def test_what_is_not_a_failed_test_gets_no_second_look(suite: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be imported, an option that does not exist, a run without a test."""
    assert suite.judge("--no-such-option") == 4
    assert suite.judge("-k", "no_such_test") == 5
    suite.add("unreadable", "import no_such_module\n")
    assert suite.judge() not in (0, 4, 5)
    assert "second look" not in capfd.readouterr().out


def test_a_test_that_takes_its_process_away_is_looked_at_again(suite: Suite) -> None:
    suite.add("deadly", "import os\n\ndef test_deadly(): os.kill(os.getpid(), 9)\n")
    assert suite.judge("-n", "2") == 1


HANGS = """
import asyncio, pytest
from tests.suite import hang

hang.GRACE_S = 0.2

@pytest.mark.timeout(0.2)
def test_hangs():
    while True:
        try:
            asyncio.run(asyncio.sleep(60))
        except BaseException:
            pass
"""


@pytest.mark.timeout(60)
def test_a_test_that_its_limit_does_not_end_is_broken_and_the_others_go_on(
    suite: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    """It takes the alarm for an error of its own."""
    suite.add("hangs", HANGS)
    (suite.folder / "conftest.py").write_text('pytest_plugins = ["tests.suite.hang"]\n')
    assert suite.judge("-n", "1") == 1
    assert "BROKEN test_hangs.py::test_hangs\n1 passed, 1 failed, 1 skipped\n" in capfd.readouterr().out


def test_the_command(suite: Suite, tmp_path: Path) -> None:
    """What `tests/run` calls takes pytest's arguments, and its exit code is the verdict."""
    (tmp_path / "test_odd.py").write_text("def test_odd(): assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests.suite.judge", str(tmp_path / "test_odd.py"), "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed, 0 skipped")
