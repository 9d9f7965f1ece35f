"""An environment with one extra of the package and nothing else, made of links to what is installed here."""

from __future__ import annotations

import importlib.metadata as metadata
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.shell import ROOT, Shell

_TOP = re.compile(r"^(?!\.\.)([^/]+)")


def needed(name: str, extras: frozenset[str], seen: set[str]) -> Iterator[metadata.Distribution]:
    """A distribution and all that it needs."""
    for text in metadata.distribution(name).requires or []:
        one = Requirement(text)
        wanted = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if one.marker is not None and not any(one.marker.evaluate(env) for env in [{"extra": ""}, *wanted]):
            continue
        key = f"{one.name.lower()}[{','.join(sorted(one.extras))}]"
        if key not in seen:
            seen.add(key)
            yield metadata.distribution(one.name)
            yield from needed(one.name, frozenset(one.extras), seen)


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """`installed(extras...)`: an environment with nothing but what these extras declare, by links to what is installed here."""

    def make(shell: Shell, *extras: str) -> dict[str, str]:
        folder = tmp_path / ("with-" + "-".join(extras))
        folder.mkdir()
        for distribution in needed("sessiond", frozenset(extras), set()):
            for file in distribution.files or []:
                top = _TOP.match(str(file))
                if top and not (folder / top[1]).exists():
                    (folder / top[1]).symlink_to(str(distribution.locate_file(top[1])))
        (folder / "sessiond").symlink_to(ROOT / "sessiond")
        return {**shell.env, "PYTHONPATH": str(folder)}

    return make
