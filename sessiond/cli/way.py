"""The way of a session through the tools: its parent, the parent of that, and so on."""

from __future__ import annotations

from sessiond.client.blocking import Sessiond
from sessiond.client.types import SessionInfo
from sessiond.errors import BadFile, SessionNotFound, Unavailable

_MOST_STEPS = 100


def way_of(client: Sessiond, info: SessionInfo) -> list[str]:
    """Ids with the tools that they came from, the nearest first. It ends where a session is not here, or comes up twice."""
    found: list[str] = []
    seen = {info.session_id}
    here: SessionInfo | None = info
    while here is not None and here.parent is not None and len(found) < _MOST_STEPS:
        parent = here.parent.session_id
        if parent in seen:
            break
        seen.add(parent)
        try:
            here = client.session(parent).info()
        except (SessionNotFound, Unavailable, BadFile):
            here = None
        found.append(_shown(parent, here))
    return found


def _shown(session_id: str, info: SessionInfo | None) -> str:
    if info is None:
        return f"{session_id} (not here)"
    source = info.metadata.get("source")
    tool = source.get("tool") if isinstance(source, dict) else None
    return f"{session_id} ({tool})" if isinstance(tool, str) else session_id
