"""Real daemons on real disks that fail."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.zygote import ForkedHome, Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def home(zygote: Zygote, tmp_path: Path) -> Iterator[ForkedHome]:
    """A home that saves at once, so that session files are written while a fault lasts."""
    made = ForkedHome(
        zygote, tmp_path, "[autosave]\nidle_s = 0.02\n[limits]\nsegment_bytes = 8192\nreserve_bytes = 4096\n"
    )
    made.start()
    yield made
    made.kill()
    made.forget_clients()


@pytest.fixture
def mounted() -> Iterator[Callable[..., Path]]:
    """`mounted(options..., source)`: a file system on a new folder, taken away at the end. Skips where nothing mounts."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    made: list[Path] = []
    numbers = itertools.count()
    top = Path(tempfile.mkdtemp(prefix="sd-"))

    def mount(*arguments: str) -> Path:
        folder = top / str(next(numbers))
        folder.mkdir()
        done = subprocess.run(["mount", *arguments, str(folder)], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine does not mount that: {done.stderr.strip()}")
        made.append(folder)
        return folder

    yield mount
    for folder in reversed(made):
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()
    top.rmdir()
