"""Random lives in hostile surroundings: no acknowledged word is lost, no other program's file is changed, nothing hangs or dies."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.suite.explore import SEED, tries

LIVES = tries(few=4, usual=20)
LIFE_S = 20
"""For how long one may go on."""


@pytest.mark.timeout(LIFE_S * LIVES + 60)
def test_lives_in_hostile_surroundings_lose_nothing() -> None:
    """A failing life prints its seed, its steps and the command that repeats it. It runs in a separate process, since it may
    have its own mounts.
    """
    seed = f"ci {SEED}" if SEED else "ci"
    arguments = ["--seed", seed, "--lives", str(LIVES), "--seconds", str(LIFE_S * LIVES)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile", *arguments],
        capture_output=True,
        text=True,
        timeout=LIFE_S * LIVES + 50,
        check=False,
    )
    print(done.stdout[-200:])
    assert done.returncode == 0, (done.stdout + done.stderr)[-20_000:]
