"""Kiro, as a command and as an editor.

The command wrote, one after the other: a row per folder in `data.sqlite3` (as Amazon Q did), `~/.kiro/sessions/cli/<id>.jsonl`
with `<id>.json` next to it, and `~/.kiro/sessions/<folder>/sess_<id>/messages.jsonl`. The editor's sessions have the form of
Continue's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.continue_ import Continue
from sessiond.importers.database import MAGIC, guarded
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.kiro_database import read_rows, shown
from sessiond.importers.kiro_events import KINDS, EventReader
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Opener
from sessiond.importers.source_file import beside, folder_name, listed, mapped, parent_of, rest_of, stem, word
from sessiond.importers.tool import Tool, in_config
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_EVENTS = "messages.jsonl"
_ROLES = {"Prompt": "user", "AssistantMessage": "assistant", "ToolResults": "tool", "Compaction": "system"}


class _Editor(Continue):
    name = "kiro"


class Kiro(Tool):
    name = "kiro"

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            is_editors = "kiro.kiroagent" in path.lower() and b'"sessionId"' in head
            return 95 if is_editors and _Editor().recognise(path, head) else 0
        if os.path.basename(path) == _EVENTS and folder_name(path).startswith("sess_"):
            return 92 if any(word(mapped(one.get("payload")).get("type")) in KINDS for one in head_objects(head)) else 0
        if path.endswith(".jsonl") and b'"kind"' in head:
            known = (
                word(one.get("kind")) in _ROLES and isinstance(one.get("data"), dict) for one in head_objects(head)
            )
            return 92 if any(known) else 0
        is_database = head.startswith(MAGIC) and b"conversations" in head and path.endswith(".sqlite3")
        return 90 if is_database and (b"conversations_v2" in head or b"auth_kv" in head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if path.endswith(".json"):
            yield from _Editor().read(path, open_)
        elif os.path.basename(path) == _EVENTS:
            yield from read_with(EventReader(self.name, path, beside(path, "session.json", open_)), path, open_)
        elif path.endswith(".jsonl"):
            yield from read_with(_Reader(path, beside(path, f"{stem(path)}.json", open_)), path, open_)
        else:
            yield from guarded(path, open_, lambda database: read_rows(database, path))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        databases = [path for name in ("kiro-cli", "amazon-q") for path in in_config(home, env, name, "data.sqlite3")]
        editor = in_config(home, env, "Kiro", "User", "globalStorage", "kiro.kiroagent", "workspace-sessions")
        return [os.path.join(env.get("KIRO_HOME") or os.path.join(home, ".kiro"), "sessions"), *databases, *editor]


class _Reader:
    """The records of `<id>.jsonl`: `{kind, data}`, whose content is made of `{kind, data}` too."""

    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        source_id = word(about.get("session_id")) or stem(path)
        self._draft = SessionDraft(Kiro.name, path, source_id, fallback_time=moment(about.get("created_at")))

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start()
        kind, data = word(record.get("kind")), mapped(record.get("data"))
        if kind not in _ROLES or not data:
            self._draft.keep(record)
            return
        time = mapped(data.get("meta")).get("timestamp")
        turn = Turn(_ROLES[kind], rest_of(data, "message_id", "content", "meta", "summary", "results"))
        content = data.get("content", data.get("summary"))
        for part in content if isinstance(content, list) else [content]:
            _take(turn, part)
        yield from turn.events(self._draft, line=line, id=data.get("message_id"), time=time)

    def _start(self) -> Event:
        about, state = self._about, self._about.get("session_state")
        return self._draft.start(
            name=about.get("title"),
            cwd=about.get("cwd"),
            createdAt=about.get("created_at"),
            updatedAt=about.get("updated_at"),
            model=mapped(mapped(mapped(state).get("rts_model_state")).get("model_info")).get("model_id"),
            parent=parent_of(Kiro.name, about.get("parent_session_id")),
        )

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()


def _take(turn: Turn, part: object) -> None:
    kind = mapped(part).get("kind")
    data = mapped(part).get("data")
    if kind == "text" or isinstance(part, str):
        turn.say(data if kind else part)
    elif kind == "thinking":
        turn.think(data.get("text") if isinstance(data, dict) else data)
    elif kind == "toolUse" and isinstance(data, dict):
        turn.call(data.get("toolUseId"), data.get("name"), data.get("input"))
    elif kind == "toolResult" and isinstance(data, dict):
        given = [shown(one) for one in listed(data.get("content"))]
        turn.result(data.get("toolUseId"), given, error=data.get("status") == "error")
    elif part is not None:
        turn.add(part)
