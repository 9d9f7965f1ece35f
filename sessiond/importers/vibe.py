"""Mistral Vibe: `session_*/messages.jsonl` with `meta.json` next to it (version 2), `session_*.json` (version 1), and the store
of version 3 (see `vibe_store`), which is recognised by its `meta.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import (
    beside,
    folder_name,
    listed,
    mapped,
    parent_of,
    read_records,
    rest_of,
    stem,
    word,
    written_at,
)
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.importers.vibe_store import read_store
from sessiond.model.values import JsonObject

_META = "meta.json"
_MESSAGES = "messages.jsonl"
_USED = ("role", "content", "tool_calls", "tool_call_id", "message_id", "reasoning_content", "injected", "timestamp")
_BULKY = ("tools_available", "config", "agent_config", "system_prompt", "environment")


class Vibe(Tool):
    name = "vibe"
    verified = "real files"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        name = os.path.basename(path)
        if name == _MESSAGES:
            found = head_objects(head)[:3]
            return 90 if any("role" in one and {"message_id", "injected"} & one.keys() for one in found) else 0
        if name == _META:
            is_store = b'"session_id"' in head and os.path.isfile(os.path.join(os.path.dirname(path), "CURRENT"))
            return 90 if is_store else 0
        is_old = name.startswith("session_") and name.endswith(".json") and b'"metadata"' in head
        return 85 if is_old and b'"session_id"' in head and b'"environment"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        name = os.path.basename(path)
        if name == _META:
            meta = beside(path, _META, open_)
            draft = started(path, meta)
            yield from read_store(draft, path, open_, start(draft, meta))
        elif name.endswith(".json"):
            yield from read_records(lambda about: _Reader(path, about.get("metadata")), path, open_, "messages")
        else:
            yield from read_with(_Reader(path, beside(path, _META, open_)), path, open_)

    def is_part(self, path: str) -> bool:
        above = os.path.dirname(os.path.dirname(path))
        return any(os.path.isfile(os.path.join(folder, "CURRENT")) for folder in (above, os.path.dirname(above)))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(env.get("VIBE_HOME") or os.path.join(home, ".vibe"), "logs", "session")]


def started(path: str, meta: JsonObject) -> SessionDraft:
    """The draft of a session, named as its metadata say."""
    own = stem(path) if os.path.basename(path) not in (_META, _MESSAGES) else folder_name(path)
    fallback = moment(meta.get("start_time")) or written_at(path)
    return SessionDraft(Vibe.name, path, word(meta.get("session_id")) or own, fallback_time=fallback)


def start(draft: SessionDraft, meta: JsonObject) -> Event:
    environment, config, parent = meta.get("environment"), meta.get("config"), meta.get("parent_session_id")
    return draft.start(
        name=meta.get("title"),
        createdAt=meta.get("start_time"),
        updatedAt=meta.get("end_time"),
        cwd=mapped(environment).get("working_directory"),
        model=mapped(config).get("active_model"),
        parent=parent_of(Vibe.name, parent),
        metadata=rest_of(meta, "session_id", "title", "start_time", "end_time", "parent_session_id", *_BULKY),
    )


class _Reader:
    """Messages in OpenAI's form."""

    def __init__(self, path: str, meta: object) -> None:
        self._meta = mapped(meta)
        self._draft = started(path, self._meta)

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield start(self._draft, self._meta)
        role = record.get("role")
        if not isinstance(role, str):
            yield SkippedLine(self._draft.path, line, "not a message: it needs a role")
            return
        turn = Turn(role, rest_of(record, *_USED))
        if record.get("injected") is True:
            turn.metadata["injected"] = True
        turn.think(record.get("reasoning_content"))
        if record["role"] == "tool":
            turn.result(record.get("tool_call_id"), record.get("content"))
        else:
            turn.take(record.get("content"))
        for call in listed(record.get("tool_calls")):
            function = mapped(call).get("function")
            if isinstance(function, dict):
                turn.call(call.get("id"), function.get("name"), function.get("arguments"))
        yield from turn.events(self._draft, line=line, id=record.get("message_id"), time=record.get("timestamp"))

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
