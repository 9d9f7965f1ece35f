"""Finds what a compaction of Codex's writes again: the history that the model is sent from then on. The file has most of it already,
and each later compaction writes all of it once more.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from sessiond.importers.overlay import Table
from sessiond.importers.record import digest_of
from sessiond.importers.source_file import listed, mapped
from sessiond.model.values import JsonObject

_KEY = "replacement_history"
SAME_AS = "sameAs"
"""In place of an item that is here already: the id of the message that it is, or in whose record it is."""


class History:
    """A table of which items are in which messages. Holds digests and ids, never texts."""

    def __init__(self) -> None:
        self._ids: MutableMapping[bytes, str] = Table()

    def note(self, message_id: str, item: JsonObject) -> None:
        """An item, or each item of a compaction's history, is in this message."""
        for one in listed(item[_KEY]) if _KEY in item else [item]:
            self._ids.setdefault(_mark(one), message_id)

    def without_repeats(self, payload: JsonObject) -> JsonObject:
        """The payload of a compaction with only what is new in its history, and references to the rest."""
        items = payload.get(_KEY)
        if not isinstance(items, list):
            return payload
        known = (self._ids.get(_mark(item)) for item in items)
        kept = [item if of is None else {SAME_AS: of} for item, of in zip(items, known, strict=True)]
        return {**payload, _KEY: kept}


def _mark(item: object) -> bytes:
    """The same for an item and its copy, which may have another id, and nothing where the item has an empty value."""
    said = {key: value for key, value in mapped(item).items() if key != "id" and value not in (None, "", [], {})}
    content = [
        {key: value for key, value in mapped(block).items() if value not in (None, [], {})} or block
        for block in listed(said.get("content"))
    ]
    return digest_of({**said, "content": content} if content else said or item)
