"""Homes of sessiond for tests. One name stands for one kind, in all files; a test whose home is special overrides it.

| fixture | type | |
| --- | --- | --- |
| `shell` | `Shell` | `SESSIOND_HOME`, and commands that are run in it |
| `user` | `Shell` | the same, of somebody with a home folder of their own, in which other tools keep their files |
| `home` | `Home` | `SESSIOND_HOME` with a daemon in a process of its own, and connections to it |
| `forked` | `ForkedHome` | the same, from `zygote`: it starts in milliseconds |
| `house` | `House` | a folder with one store in this process, without a daemon |
| `user_home` | `Path` | somebody's home folder |

`tests/test_house.py` holds all fixtures to this table.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.home import Home
from tests.shell import Shell
from tests.zygote import Zygote


@pytest.fixture
def shell() -> Iterator[Shell]:
    """`shell("list", "--json")` runs `sessiond list --json`; whatever daemon that starts is ended with the test."""
    made = Shell()
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A daemon that runs already, in `home` under the test's folder, and connections to it."""
    path = tmp_path / "home"
    path.mkdir()
    with Home(path) as made:
        yield made


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Daemons that share one import of the program: each is forked from it."""
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def mounted() -> Iterator[Callable[..., Path]]:
    """`mounted(arguments..., at=folder)`: a file system on a folder, removed at the end. Skips where nothing mounts."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    made: list[Path] = []

    def mount(*arguments: str, at: Path) -> Path:
        at.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", *arguments, str(at)], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine does not mount that: {done.stderr.strip()}")
        made.append(at)
        return at

    yield mount
    for folder in reversed(made):
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
