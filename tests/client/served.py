"""A daemon that clients find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sessiond.endpoint import read_endpoint
from tests.shell import wait_until
from tests.zygote import ForkedHome, Zygote


@contextmanager
def served_home(zygote: Zygote, path: Path, config: str = "") -> Iterator[ForkedHome]:
    """A home with a daemon that listens and has said where: the record comes a moment after the socket."""
    with ForkedHome(zygote, path, config) as home:
        wait_until(lambda: read_endpoint(str(path / "data")) is not None)
        yield home
