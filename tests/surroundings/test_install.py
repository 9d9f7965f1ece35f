"""Installed as the README says, in an environment of its own: what is missing can be added with the command that the error gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell import ROOT
from tests.surroundings.strangers import install_settings

DEADLINE_S = 600


@pytest.mark.timeout(DEADLINE_S + 60)
def test_an_extra_can_be_added_as_the_error_says(tmp_path: Path) -> None:
    """The line is run as it is, in a folder that is no checkout; then the command works. The terminal client needs no extra."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHON": sys.executable,
        **install_settings(),
    }

    def sh(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-ec", script], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    made = sh(f'"$PYTHON" -m venv "an environment" && "an environment/bin/pip" install -q "{ROOT}"')
    assert made.returncode == 0, made.stdout + made.stderr
    program = "'an environment/bin/sessiond'"
    assert sh(f"echo hello | {program} repl && {program} stop").returncode == 0
    refused = sh(f"{program} mcp")
    assert refused.returncode == 1
    hint = refused.stderr.strip().partition("not installed: ")[2]
    added = sh(hint)
    assert added.returncode == 0, (hint, added.stderr)
    served = sh(f"{program} mcp")
    assert served.returncode == 0, served.stderr
