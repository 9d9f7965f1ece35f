"""Running the programs of the service manager."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Said(NamedTuple):
    """How a program ended, and what it printed; `words` is the part that explains a failure."""

    code: int
    out: str
    words: str


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: str | None = None, timeout_s: float = 60.0
) -> Said:
    """Run a program without input. One that cannot be run, or does not end, has the code 127."""
    if shutil.which(command[0]) is None:
        return Said(127, "", f"{command[0]} is not on the PATH")
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
        return Said(127, "", str(error))
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return Said(done.returncode, done.stdout.strip(), lines[-1] if lines else f"exit code {done.returncode}")
