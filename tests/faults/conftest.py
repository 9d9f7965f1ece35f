"""Real daemons on real disks that fail."""

from __future__ import annotations

import os
import subprocess
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
    """`mounted(arguments..., at=folder)`: a file system on a folder, taken away at the end. Skips where nothing mounts."""
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
