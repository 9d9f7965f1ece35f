"""Reads what the header of a Codex rollout (`session_meta`) says of its session."""

from __future__ import annotations

import os
import re
from collections import Counter

from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.draft import SessionDraft
from sessiond.importers.jsontext import encoded
from sessiond.importers.record import SessionStart
from sessiond.importers.source_file import mapped, parent_of, without
from sessiond.model.values import JsonObject

_META_BYTES = 4096
_ARCHIVE = "archived_sessions"
"""The folder that Codex moves a session to when it is archived."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def source_id(path: str, meta: JsonObject) -> str:
    stem = os.path.basename(path).removesuffix(".zst").removesuffix(".jsonl")
    found = _UUID.findall(stem)
    own_id = meta.get("id")
    return own_id if isinstance(own_id, str) and own_id else found[-1] if found else stem


def start(draft: SessionDraft, record: JsonObject, meta: JsonObject, ignored: Counter[str]) -> SessionStart:
    """The session's start. `meta`: empty if the file has no header. `ignored`: where fields that are left out are counted."""
    metadata = {
        key: value for key, value in without(meta, "id", "cwd", "timestamp", PARENT).items() if value is not None
    }
    for key in [key for key, value in metadata.items() if len(encoded(value) or b"") > _META_BYTES]:
        # Codex's own instructions, which every list of sessions would repeat.
        del metadata[key]
        ignored[f"session_meta/{key}"] += 1
    if branch := mapped(meta.get("git")).get("branch"):
        metadata["gitBranch"] = branch
    spawn = mapped(meta.get("source")).get("subagent")
    thread = mapped(spawn).get("thread_spawn")
    # A fork names the session that it came from, a subagent the one that it works for.
    parent = parent_of(
        draft.tool, thread.get("parent_thread_id") if isinstance(thread, dict) else meta.get("forked_from_id")
    )
    if parent and isinstance(spawn, dict):
        metadata["sidechain"] = True
    time = meta.get("timestamp") or record.get("timestamp")
    return draft.start(
        createdAt=time,
        cwd=meta.get("cwd"),
        parent=parent or came_from(meta),
        archived=_ARCHIVE in os.path.abspath(draft.path).split(os.sep),
        metadata=metadata,
    )
