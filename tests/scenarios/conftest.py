"""A daemon for all scenarios of a system, and a separate folder for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Home


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    path = tmp_path_factory.mktemp("home")
    with Home(path, config="[limits]\nsettle_s = 0.05\n") as home:
        yield home


@pytest.fixture
def daemon(place: Home) -> Home:
    """Running, whatever the test before did to it."""
    if place.process is None or place.process.poll() is not None:
        place.start()
    return place


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the source system writes into; the folder around it is named like the store."""
    made = tmp_path_factory.mktemp("store") / "theirs"
    made.mkdir()
    return made
