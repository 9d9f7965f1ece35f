"""Real daemons on real disks that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.zygote import ForkedHome, Zygote


@pytest.fixture
def forked(zygote: Zygote, tmp_path: Path) -> Iterator[ForkedHome]:
    """A home that saves at once, so that session files are written while a fault lasts."""
    made = ForkedHome(
        zygote, tmp_path, "[autosave]\nidle_s = 0.02\n[limits]\nsegment_bytes = 8192\nreserve_bytes = 4096\n"
    )
    made.start()
    yield made
    made.kill()
    made.forget_clients()
