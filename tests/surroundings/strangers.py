"""A home on another person's machine: from our environment only the places of the programs."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.programs import need
from tests.shell import ROOT, Shell

DEADLINE_S = 30.0


def stranger(**env: str) -> Shell:
    """A `Shell` with PATH, HOME and SESSIOND_HOME only, and what `env` says."""
    home = Shell()
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    home.env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.path),
        "SESSIOND_HOME": str(home.path),
        "PYTHONPATH": str(ROOT),
        **measured,
        **env,
    }
    return home


NOBODY = 61_234
"""A user that no system knows."""


def as_nobody(command: Sequence[str]) -> list[str]:
    """`command`, run by a user without an entry and without root's rights, but to read: Python may be in root's home."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    caps = "+dac_read_search"
    return [
        need("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}", *command,
    ]  # fmt: skip


def install_settings() -> dict[str, str]:
    """Only what pip needs from our environment to reach its index."""
    known = (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
    )
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.upper() in known}


class Lines:
    """What a process writes into a pipe, line by line, each with a deadline."""

    def __init__(self, process: subprocess.Popen[Any], pipe: str = "stdout") -> None:
        self._process = process
        self._fd = getattr(process, pipe).fileno()
        self._held = b""

    def next(self, deadline_s: float = DEADLINE_S) -> str:
        """AssertionError where none comes in time, or the pipe ends."""
        deadline = time.monotonic() + deadline_s
        while b"\n" not in self._held:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._fd], [], [], max(left, 0))
            assert ready, f"no line within {deadline_s:g} s; so far {self._held!r}"
            chunk = os.read(self._fd, 65536)
            assert chunk, f"the end, after {self._held!r}"
            self._held += chunk
        line, _, self._held = self._held.partition(b"\n")
        return line.decode("utf-8", "replace")

    def begun(self, part: str) -> None:
        """Wait until the line that has not ended yet is `part`, and forget it."""
        deadline = time.monotonic() + DEADLINE_S
        while self._held != part.encode():
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._fd], [], [], max(left, 0))
            assert ready, f"no {part!r} within {DEADLINE_S:g} s; so far {self._held!r}"
            chunk = os.read(self._fd, 65536)
            assert chunk, f"the end, after {self._held!r}"
            self._held += chunk
        self._held = b""

    def until(self, part: str) -> str:
        """The next line that holds `part`."""
        while part not in (line := self.next()):
            pass
        return line
