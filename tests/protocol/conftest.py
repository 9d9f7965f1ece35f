"""The contract, tested from outside: real daemons, real sockets. One daemon for each module where its state does not matter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.home import Client, Home

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose daemon serves all tests of the module."""
    with Home(tmp_path_factory.mktemp("h")) as home:
        yield home


@pytest.fixture
def client(home: Home) -> Iterator[Client]:
    made = home.client()
    yield made
    made.close()


@pytest.fixture
def other(home: Home) -> Iterator[Client]:
    made = home.client()
    yield made
    made.close()


@pytest.fixture
def sid() -> str:
    """An id that no other test uses."""
    return f"s{next(_numbers)}"


@pytest.fixture
def session(client: Client, sid: str) -> Callable[..., str]:
    """Make a session of some words; answers its id."""

    def make(*words: str, **params: object) -> str:
        messages = [{"id": f"m{n}", "role": "user", "content": word} for n, word in enumerate(words, 1)]
        client.call("session/new", sessionId=sid, messages=messages, **params)
        return sid

    return make
