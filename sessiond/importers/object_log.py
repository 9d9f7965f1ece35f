"""A log of changes to one JSON value, as VS Code writes it since 2026: one change per line, the first is the whole value."""

from __future__ import annotations

from typing import Any

from sessiond.model.values import JsonObject

_WHOLE, _SET, _PUSH, _DELETE = range(4)


class ObjectLog:
    """`state`: the value after the changes so far; None before the first one."""

    def __init__(self) -> None:
        self.state: Any = None

    def apply(self, change: JsonObject) -> str | None:
        """Apply one change. Returns why it cannot be applied, or None."""
        kind, path = change.get("kind"), change.get("k")
        if kind == _WHOLE:
            self.state = change.get("v")
            return None
        if kind not in (_SET, _PUSH, _DELETE) or not isinstance(path, list):
            return f"a change of unknown kind {kind!r}"
        if not path:
            self.state = change.get("v") if kind == _SET else self.state
            return None if kind == _SET else "a change without a path"
        try:
            holder = self.state
            for key in path[:-1]:
                holder = holder[key]
            self._change(holder, path[-1], int(kind), change)
        except (KeyError, IndexError, TypeError, AttributeError):
            return f"a change of {'.'.join(map(str, path))}, which is not there"
        return None

    def _change(self, holder: Any, key: Any, kind: int, change: JsonObject) -> None:
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
