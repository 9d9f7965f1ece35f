"""A daemon for the Python client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.served import served_home
from tests.zygote import ForkedHome, Zygote


@pytest.fixture
def forked(zygote: Zygote, tmp_path: Path) -> Iterator[ForkedHome]:
    with served_home(zygote, tmp_path) as made:
        yield made
