"""Kiro, as a command and as an editor.

The command writes `~/.kiro/sessions/cli/<id>.jsonl` with `<id>.json` next to it; its older versions, and Amazon Q before it, a
row per folder in `data.sqlite3`. The editor's sessions have the form of Continue's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from sessiond.importers.continue_ import Continue
from sessiond.importers.database import MAGIC, Database, from_json, guarded
from sessiond.importers.draft import SessionDraft, moment, suggest_id
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import beside, rest_of, stem
from sessiond.importers.tool import Tool, in_config
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_ROLES = {"Prompt": "user", "AssistantMessage": "assistant", "ToolResults": "tool", "Compaction": "system"}
_ID = ("conversation_id", "history", "transcript", "tools", "context_manager", "model_info", "next_message", "latest_summary",
       "valid_history_range", "tool_manager", "context_message_length")  # fmt: skip


class _Editor(Continue):
    name = "kiro"


class Kiro(Tool):
    name = "kiro"

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            is_editors = "kiro.kiroagent" in path.lower() and b'"sessionId"' in head
            return 95 if is_editors and _Editor().recognise(path, head) else 0
        if path.endswith(".jsonl"):
            known = (one.get("kind") in _ROLES and isinstance(one.get("data"), dict) for one in head_objects(head))
            return 92 if any(known) else 0
        is_database = head.startswith(MAGIC) and b"conversations" in head and path.endswith(".sqlite3")
        return 90 if is_database and (b"conversations_v2" in head or b"auth_kv" in head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if path.endswith(".json"):
            yield from _Editor().read(path, open_)
        elif path.endswith(".jsonl"):
            yield from read_with(_Reader(path, beside(path, f"{stem(path)}.json", open_)), path, open_)
        else:
            yield from guarded(path, open_, lambda database: _read(database, path))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        databases = [path for name in ("kiro-cli", "amazon-q") for path in in_config(home, env, name, "data.sqlite3")]
        editor = in_config(home, env, "Kiro", "User", "globalStorage", "kiro.kiroagent", "workspace-sessions")
        return [os.path.join(env.get("KIRO_HOME") or os.path.join(home, ".kiro"), "sessions"), *databases, *editor]


class _Reader:
    """The records of `<id>.jsonl`: `{kind, data}`, whose content is made of `{kind, data}` too."""

    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        given = about.get("session_id")
        source_id = given if isinstance(given, str) and given else stem(path)
        self._draft = SessionDraft(Kiro.name, path, source_id, fallback_time=moment(about.get("created_at")))

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start()
        kind, given = record.get("kind"), record.get("data")
        data: JsonObject = given if isinstance(given, dict) else {}
        if kind not in _ROLES or not data:
            self._draft.keep(record)
            return
        meta = data.get("meta")
        time = meta.get("timestamp") if isinstance(meta, dict) else None
        turn = Turn(_ROLES[kind], rest_of(data, "message_id", "content", "meta", "summary", "results"))
        content = data.get("content", data.get("summary"))
        for part in content if isinstance(content, list) else [content]:
            _take(turn, part)
        yield from turn.events(self._draft, line=line, id=data.get("message_id"), time=time)

    def _start(self) -> Event:
        about, state = self._about, self._about.get("session_state")
        known = state.get("rts_model_state") if isinstance(state, dict) else None
        model = known.get("model_info") if isinstance(known, dict) else None
        parent = about.get("parent_session_id")
        return self._draft.start(
            name=about.get("title"),
            cwd=about.get("cwd"),
            createdAt=about.get("created_at"),
            updatedAt=about.get("updated_at"),
            model=model.get("model_id") if isinstance(model, dict) else None,
            parent={"sessionId": suggest_id(Kiro.name, parent), "seq": None}
            if isinstance(parent, str) and parent
            else None,
        )

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()


def _take(turn: Turn, part: Any) -> None:
    kind = part.get("kind") if isinstance(part, dict) else None
    data = part.get("data") if isinstance(part, dict) else None
    if kind == "text" or isinstance(part, str):
        turn.say(data if kind else part)
    elif kind == "thinking":
        turn.think(data.get("text") if isinstance(data, dict) else data)
    elif kind == "toolUse" and isinstance(data, dict):
        turn.call(data.get("toolUseId"), data.get("name"), data.get("input"))
    elif kind == "toolResult" and isinstance(data, dict):
        shown = [_shown(one) for one in data.get("content") or []]
        turn.result(data.get("toolUseId"), shown, error=data.get("status") == "error")
    elif part is not None:
        turn.add(part)


def _shown(one: Any) -> Any:
    """A piece of a result: `{kind, data}` or `{Text}`."""
    if not isinstance(one, dict):
        return one
    text = one.get("data") if one.get("kind") == "text" else one.get("Text")
    return {"type": "text", "text": text} if isinstance(text, str) else one


def _read(database: Database, path: str) -> Iterator[Event]:
    newer = bool(database.columns("conversations_v2"))
    table = "conversations_v2" if newer else "conversations"
    database.require(table, "key", "value")
    for row in database.rows(f"SELECT * FROM {table} ORDER BY rowid"):  # noqa: S608  # one of two names
        value = from_json(row["value"])
        if isinstance(value, dict) and isinstance(value.get("history"), list):
            yield from _conversation(path, row, value)
        else:
            yield SkippedLine(path, None, f"the conversation of {row['key']} has no history")


def _conversation(path: str, row: JsonObject, value: JsonObject) -> Iterator[Event]:
    draft = SessionDraft(Kiro.name, path, str(value.get("conversation_id") or row["key"]))
    model, created, updated = value.get("model_info"), row.get("created_at"), row.get("updated_at")
    yield draft.start(
        cwd=row["key"],
        createdAt=created,
        updatedAt=updated,
        model=model.get("model_id") if isinstance(model, dict) else None,
        metadata=rest_of(value, *_ID),
    )
    for entry in value["history"]:
        user = entry.get("user") if isinstance(entry, dict) else None
        answer = entry.get("assistant") if isinstance(entry, dict) else None
        if isinstance(user, dict):
            yield from _asked(draft, user)
        if isinstance(answer, dict):
            yield from _answered(draft, answer, entry.get("request_metadata"))
        if not isinstance(user, dict) and not isinstance(answer, dict):
            draft.keep(entry)
    yield from draft.end()


def _asked(draft: SessionDraft, user: JsonObject) -> Iterator[Event]:
    turn = Turn("user", rest_of(user, "content", "timestamp"))
    content = user.get("content")
    kind, data = next(iter(content.items())) if isinstance(content, dict) and len(content) == 1 else (None, content)
    if kind == "Prompt" and isinstance(data, dict):
        turn.say(data.get("prompt"))
    elif isinstance(data, dict) and isinstance(data.get("tool_use_results"), list):
        turn.say(data.get("prompt"))
        for one in data["tool_use_results"]:
            shown = [_shown(piece) for piece in one.get("content") or []]
            turn.result(
                one.get("tool_use_id"), shown, error=one.get("status") == "Error" or kind == "CancelledToolUses"
            )
    else:
        turn.take(content)
    yield from turn.events(draft, time=user.get("timestamp"))


def _answered(draft: SessionDraft, answer: JsonObject, request: Any) -> Iterator[Event]:
    kind, data = next(iter(answer.items()))
    turn = Turn("assistant", {"request": request} if request else {})
    if kind not in ("Response", "ToolUse") or not isinstance(data, dict):
        turn.metadata["record"] = answer
        data = {}
    turn.say(data.get("content"))
    for call in data.get("tool_uses") or []:
        turn.call(call.get("id"), call.get("name"), call.get("args"))
    about: JsonObject = request if isinstance(request, dict) else {}
    if isinstance(about.get("model_id"), str):
        draft.model = about["model_id"]
    yield from turn.events(draft, id=data.get("message_id"), time=about.get("request_start_timestamp_ms"))
