"""Fixtures for tests that run the real program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shell import Shell


@pytest.fixture
def home() -> Iterator[Shell]:
    """A throwaway home; its daemon is ended with the test."""
    made = Shell()
    yield made
    made.close()
