"""Fixtures for tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shell import Shell


@pytest.fixture
def user() -> Iterator[Shell]:
    """Somebody with an empty home folder."""
    made = Shell()
    made.env["HOME"] = str(made.path)
    yield made
    made.close()
