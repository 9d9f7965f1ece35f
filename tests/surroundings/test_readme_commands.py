"""The README's first command, in a fresh clone on another person's machine: the built wheel, in folders with blanks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import ROOT
from tests.surroundings.strangers import NOBODY, as_nobody, install_settings

INSTALL_S = 900


@pytest.fixture
def clone() -> Iterator[Path]:
    """The files of this checkout that git knows, in a folder with blanks that a user without rights owns."""
    folder = Path(tempfile.mkdtemp(prefix="some body's clone "))
    folder.chmod(0o755)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is not a checkout")
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    home = folder / "a home"
    home.mkdir()
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(INSTALL_S + 60)
def test_the_first_command_of_the_readme(clone: Path) -> None:
    """In an environment of PATH and HOME only, by a user who is not root: it builds and installs the wheel and shows the main job."""
    readme = (ROOT / "README.md").read_text()
    line = readme.partition("```sh\n")[2].partition("\n```")[0]
    assert "sessiond demo" in line
    python = Path(sys.executable).resolve().parent  # the first `python3` may be another version, or a shim of root's
    env = {"PATH": f"{python}:/usr/local/bin:/usr/bin:/bin", "HOME": str(clone / "a home"), **install_settings()}
    command = ["/bin/sh", "-c", line]
    done = subprocess.run(
        as_nobody(command) if os.getuid() == 0 else command, cwd=clone, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=INSTALL_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nEverything stopped and removed.\n" in done.stdout
    assert "  .venv/bin/sessiond import " in done.stdout
    installed = clone / ".venv" / "bin" / "sessiond"
    link = clone / "a home" / "sessiond"  # as pipx makes one
    link.symlink_to(installed)
    for each in (installed, link):
        assert subprocess.run(
            [each, "--version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout.startswith("sessiond ")
