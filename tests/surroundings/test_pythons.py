"""Every later Python that is installed runs the main job, from the built wheel. `sh tests/pythons` runs the tests with each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell import ROOT
from tests.surroundings.strangers import install_settings

VERSIONS = ("3.12", "3.13", "3.14")
DEADLINE_S = 600


def interpreter(version: str) -> str | None:
    """One that starts: a shim may stand for a Python that nobody chose."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for candidate in (shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.timeout(DEADLINE_S + 60)
@pytest.mark.parametrize("version", [each for each in VERSIONS if each != "{}.{}".format(*sys.version_info)])
def test_the_main_job_on_each_python(version: str, tmp_path: Path) -> None:
    """Installed without our extras."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **install_settings()}
    script = f'"$PYTHON" -m venv v && v/bin/pip install -q "{ROOT}" && v/bin/sessiond demo && v/bin/sessiond --version'
    done = subprocess.run(
        ["/bin/sh", "-ec", script], cwd=tmp_path, env={**env, "PYTHON": python}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything stopped and removed.\n" in done.stdout
