"""The name of a Claude Code session: its title, or a summary, which the tool may write into another session's file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from sessiond.importers.draft import suggest_id
from sessiond.importers.record import InfoUpdate
from sessiond.model.values import JsonObject

_SUMMARIES = 1000
_SIBLINGS = 500
_TAIL_BYTES = 32 * 1024


class Names:
    """`take` each record that names a session; at the end ask for its `own` name, and for those of `others`."""

    def __init__(self, tool: str, path: str) -> None:
        self._tool = tool
        self._path = path
        self._summaries: list[tuple[object, str]] = []
        self._title: str | None = None
        self._custom_title: str | None = None

    @property
    def summaries(self) -> int:
        return len(self._summaries)

    def take(self, record: JsonObject) -> bool:
        """Returns whether the record is one that names a session."""
        kind = record.get("type")
        if kind == "summary" and isinstance(summary := record.get("summary"), str):
            if len(self._summaries) < _SUMMARIES:
                self._summaries.append((record.get("leafUuid"), summary))
        elif kind in ("custom-title", "ai-title"):
            if isinstance(custom_title := record.get("customTitle"), str):
                self._custom_title = custom_title
            elif isinstance(ai_title := record.get("aiTitle"), str):
                self._title = ai_title
        else:
            return False
        return True

    def own(self, has: Callable[[str], bool]) -> str | None:
        """`has`: whether a record is in this file."""
        own = [text for leaf, text in self._summaries if isinstance(leaf, str) and has(leaf)]
        fallback = self._summaries[0][1] if self._summaries else None
        return self._custom_title or self._title or (own[-1] if own else fallback)

    def others(self, has: Callable[[str], bool]) -> Iterator[InfoUpdate]:
        """The summaries that belong to a record of another file."""
        foreign = [(leaf, text) for leaf, text in self._summaries if isinstance(leaf, str) and not has(leaf)]
        for leaf, text in foreign[:20]:
            owner = _file_with_leaf(self._path, leaf)
            if owner:
                yield InfoUpdate(owner, suggest_id(self._tool, owner), {"name": text})


def _file_with_leaf(path: str, leaf: str) -> str | None:
    """The session next to `path` whose last records contain `leaf`: Claude Code wrote its summary into a later file."""
    folder = os.path.dirname(path) or "."
    wanted = leaf.encode("utf-8", "replace")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".jsonl"))[:_SIBLINGS]
    except OSError:
        return None
    for name in names:
        other = os.path.join(folder, name)
        if name != os.path.basename(path) and os.path.isfile(other) and wanted in _tail(other):
            return name.removesuffix(".jsonl")
    return None


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:
        return b""
