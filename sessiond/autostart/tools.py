"""Running the programs of the service manager."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """The result of a program: how it ended, and what it printed; `reason` explains a failure."""

    code: int
    out: str
    reason: str


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: str | None = None, timeout_s: float = 60.0
) -> Outcome:
    """Run a program without input. One that cannot be run, or does not end, has the code 127."""
    if shutil.which(command[0]) is None:
        return Outcome(127, "", f"{command[0]} is not on the PATH")
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Outcome(127, "", str(error))
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return Outcome(done.returncode, done.stdout.strip(), lines[-1] if lines else f"exit code {done.returncode}")
