"""Real programs that tests run: skipped with the reason if one is not installed, failed if that must not happen (CI=true)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import pytest


def need(name: str) -> str:
    """The path of a program."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def run(command: Sequence[str], *, timeout_s: float = 60, env: Mapping[str, str] | None = None) -> str:
    """What a program prints; fails the test with all that it said where it does not end well. Nothing waits on its
    standard input.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **(env or {})},
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    said = done.stderr.decode("utf-8", "replace")[:4000]
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}\n{output[-4000:]}\n{said}"
    return output
