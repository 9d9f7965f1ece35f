"""Large tables of a reader that are not copied with it: a copy reads through to them, and keeps what it adds to itself."""

from __future__ import annotations

from collections import ChainMap
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Table(dict[K, V]):
    """A dict whose deep copy is a layer on top of it. The copy is good until the table itself changes."""

    def __deepcopy__(self, memo: dict[int, object]) -> ChainMap[K, V]:
        return ChainMap({}, self)
