"""Reads what the first record of a Claude Code file says of its session, and whether it is a subagent's."""

from __future__ import annotations

import os

from sessiond.importers.came_from import came_from
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import SessionStart
from sessiond.importers.source_file import mapped, parent_of
from sessiond.model.values import JsonObject


def start(draft: SessionDraft, record: JsonObject) -> SessionStart:
    owner = record.get("sessionId")
    named_as_part = record.get("isSidechain") is True or draft.source_id.startswith("agent-")
    parent = came_from(record)
    if isinstance(owner, str) and owner != draft.source_id and (named_as_part or _is_beside(draft.path, owner)):
        parent = parent_of(draft.tool, owner)
    metadata = {key: record[key] for key in ("gitBranch", "version", "agentId", "sessionId") if record.get(key)}
    if parent and named_as_part:
        metadata["sidechain"] = True
    return draft.start(createdAt=record.get("timestamp"), cwd=record.get("cwd"), parent=parent, metadata=metadata)


def forked_from(draft: SessionDraft, record: JsonObject) -> JsonObject | None:
    """The `parent` of a fork, which each record that was copied names; None for any other record."""
    origin = mapped(record.get("forkedFrom")).get("sessionId")
    return parent_of(draft.tool, origin) if origin != draft.source_id else None


class ResumedSession:
    """The session that a file goes on from: it begins with records that name another session than the file, as a resumed session or
    a copied file does, and then has its own. A file with no record of its own is that session under another name.
    """

    def __init__(self, draft: SessionDraft) -> None:
        self._draft = draft
        self._before: str | None = None
        self._own = False

    def take(self, record: JsonObject) -> None:
        owner = record.get("sessionId")
        if self._own or not isinstance(owner, str) or not owner or "parentUuid" not in record:
            return
        if owner == self._draft.source_id:
            self._own = True
        else:  # of several, each of which went on from the one before it, the last
            self._before = owner

    @property
    def parent(self) -> JsonObject | None:
        return parent_of(self._draft.tool, self._before) if self._own else None


def _is_beside(path: str, owner: str) -> bool:
    """Return whether the owner has a file: then this one is part of another session, not just a renamed copy of it."""
    return os.path.basename(owner) == owner and os.path.exists(os.path.join(os.path.dirname(path), owner + ".jsonl"))
