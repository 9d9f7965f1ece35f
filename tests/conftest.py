"""Fixtures for tests that run the real program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.shell import Shell

# How long an example takes is the machine's mood, and no claim of any test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def home() -> Iterator[Shell]:
    """A throwaway home; its daemon is ended with the test."""
    made = Shell()
    yield made
    made.close()
