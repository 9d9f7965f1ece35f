"""Random lives in hostile surroundings: no acknowledged word is lost, no other program's file is changed, nothing hangs or dies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LIVES_S = float(os.environ.get("SESSIOND_HOSTILE_S", "0"))
"""For how long fresh seeds are tried besides."""
FIXED = 20
"""Lives of seeds that are always the same."""


@pytest.mark.timeout(LIVES_S + 400)
def test_lives_in_hostile_surroundings_lose_nothing() -> None:
    """A failing life prints its seed, its steps and the command that repeats it. It runs in a separate process, since it may
    have its own mounts.
    """
    wanted = [["--seed", "ci", "--lives", str(FIXED), "--seconds", "300"]]
    if LIVES_S:
        wanted.append(["--seconds", str(LIVES_S)])
    for arguments in wanted:
        command = [sys.executable, "-m", "tests.hostile", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIVES_S + 380, check=False)
        print(done.stdout[-200:])
        assert done.returncode == 0, (done.stdout + done.stderr)[-20_000:]
