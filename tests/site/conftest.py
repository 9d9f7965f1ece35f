"""The site, built once for all tests of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import once
from tests.shell import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `mkdocs build --strict` wrote."""
    return once(tmp_path_factory, "a site", _build)


def _build(folder: Path) -> None:
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
