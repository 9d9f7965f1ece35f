"""Says how relevant a document is. Pure."""

from __future__ import annotations

import math

from sessiond.index.schema import NAME, NOTE

BM25 = "bm25(fts, 1.0, 0.4, 0.8, 0.3, 0.2, 0.2)"
"""FTS5's ranking, with the weights of body, tool, parts, tool_parts, thought, thought_parts. Lower is better, never above 0."""

_ROLES = {"user": 1.0, "assistant": 1.0, "system": 0.6, "tool": 0.4}
_OTHER_ROLE = 0.8
_HALF_LIFE_MS = 30 * 24 * 3600 * 1000
_TIMELESS = 0.5
"""The share of a document's weight that remains at any age."""
_NAME_BONUS = 1.0


def relevance(kind: int, role: str, at_ms: int, bm25: float, now_ms: int) -> float:
    """Between 0 and 1 for messages and notes, between 1 and 2 for names: more is better."""
    age = max(0, now_ms - at_ms)
    recent = _TIMELESS + (1 - _TIMELESS) * math.exp2(-age / _HALF_LIFE_MS)
    weight = 1.0 if kind in (NAME, NOTE) else _ROLES.get(role, _OTHER_ROLE)
    # Words that occur nearly everywhere weigh nothing in bm25: then time and role decide.
    strength = (0.05 - bm25) * weight * recent
    return strength / (1 + strength) + (_NAME_BONUS if kind == NAME else 0.0)
