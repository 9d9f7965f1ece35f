"""The mark in a file that `sessiond resume` wrote for another tool: which session it is a copy of."""

from __future__ import annotations

from sessiond.model.values import JsonObject

PARENT = "sessiondParent"
"""Its key: `{sessionId, seq}`, where a tool ignores a key that it does not know."""


def came_from(record: object) -> JsonObject | None:
    """The `parent` of a session whose record has the mark; None for any other."""
    mark = record.get(PARENT) if isinstance(record, dict) else None
    if not isinstance(mark, dict) or not isinstance(mark.get("sessionId"), str) or not mark["sessionId"]:
        return None
    seq = mark.get("seq")
    return {"sessionId": mark["sessionId"], "seq": seq if type(seq) is int and seq >= 0 else None}
