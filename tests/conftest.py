"""Fixtures for tests that run the real program."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.shell import Shell

# How long an example takes is the machine's mood, and no claim of any test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What a shell starts in the background ignores Ctrl-C, and so would all the programs that tests press it in.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def home() -> Iterator[Shell]:
    """A throwaway home; its daemon is ended with the test."""
    made = Shell()
    yield made
    made.close()
