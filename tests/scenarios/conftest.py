"""A daemon for all scenarios of a system, and a separate folder for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Home


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    path = tmp_path_factory.mktemp("home")
    with Home(path, config="[limits]\nsettle_s = 0.05\n") as home:
        yield home


@pytest.fixture
def home(shared_home: Home) -> Home:
    """Running, whatever the test before did to it."""
    if shared_home.process is None or shared_home.process.poll() is not None:
        shared_home.start()
    return shared_home


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the source system writes into; the folder around it is named like the store."""
    made = tmp_path_factory.mktemp("store") / "theirs"
    made.mkdir()
    return made
