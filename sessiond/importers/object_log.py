"""A log of changes to one JSON value, as VS Code writes it since 2026: one change per line, the first is the whole value.

A log that lost its beginning says a part of the value. What was set or added as a whole is known; of other elements of a list
only what changed is.
"""

from __future__ import annotations

from typing import Any

from sessiond.importers.source_file import listed
from sessiond.model.values import JsonObject

_WHOLE, _SET, _PUSH, _DELETE = range(4)
_MOST_GAPS = 1000
"""Elements that the lost beginning may have had in a list; an index far above those that are known is damage."""


class ObjectLog:
    """`state`: the value after the changes so far; None before the first one. `headless`: whether the first one is missing."""

    def __init__(self) -> None:
        self.state: Any = None
        self.headless = False
        self._lost: dict[str, int] = {}
        """Of a headless log, for each list: how many elements came before those that are here."""

    def apply(self, change: JsonObject) -> str | None:
        """Apply one change. Returns why it cannot be applied, or None."""
        kind, path = change.get("kind"), change.get("k")
        if kind == _WHOLE:
            self.state, self.headless = change.get("v"), False
            return None
        if kind not in (_SET, _PUSH, _DELETE) or not isinstance(path, list):
            return f"a change of unknown kind {kind!r}"
        if not path:
            self.state = change.get("v") if kind == _SET else self.state
            return None if kind == _SET else "a change without a path"
        if self.state is None:
            self.state, self.headless = {}, True
        try:
            if self.headless:
                path, change = self._known(path, change)
            holder = self.state
            for key in path[:-1]:
                is_new = self.headless and isinstance(holder, dict) and isinstance(key, str)
                holder = holder.setdefault(key, {}) if is_new else holder[key]
            self._change(holder, path[-1], int(kind), change)
        except (KeyError, IndexError, TypeError, AttributeError):
            return f"a change of {'.'.join(map(str, listed(change['k'])))}, which is not there"
        return None

    def _known(self, path: list[object], change: JsonObject) -> tuple[list[object], JsonObject]:
        """The path and the change in what is here of the value: indexes count from its own beginning. Raises IndexError."""
        key, start = path[0], change.get("i")
        if len(path) == 1 and isinstance(start, int):
            return path, {**change, "i": self._index(key, start, pushed=True)}
        if len(path) > 1 and isinstance(path[1], int):
            return [key, self._index(key, path[1], pushed=False), *path[2:]], change
        return path, change

    def _index(self, key: Any, index: int, *, pushed: bool) -> int:
        """The place of an element of a list. The first index that is seen tells how many elements are lost: a tool goes on
        with the last one.
        """
        items = self.state.setdefault(key, [])
        if key not in self._lost:
            last = len(items) if pushed or not items else len(items) - 1
            self._lost[key] = max(0, index - last)
        at = index - self._lost[key]
        if index < 0 or at < -_MOST_GAPS or at > len(items) + _MOST_GAPS:
            raise IndexError(index)
        if at < 0:  # what is said about one that is lost
            items[:0] = [{} for _ in range(-at)]
            self._lost[key] = index
            at = 0
        items += [{} for _ in range(at - len(items) + (not pushed))]
        return at

    def _change(self, holder: Any, key: object, kind: int, change: JsonObject) -> None:
        if isinstance(holder, dict) and not isinstance(key, str):
            raise TypeError("a key that is not a text")
        if kind == _DELETE and isinstance(holder, dict):
            holder.pop(key, None)
        elif kind == _PUSH:
            items = holder.setdefault(key, []) if isinstance(holder, dict) else holder[key]
            if isinstance(change.get("i"), int):
                del items[change["i"] :]
            items.extend(change.get("v") or [])
        elif isinstance(holder, list) and key == len(holder):
            holder.append(change.get("v"))
        else:
            holder[key] = change.get("v") if kind == _SET else None
