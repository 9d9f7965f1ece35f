"""Kiro's and Amazon Q's `data.sqlite3`: a row for each conversation, or only for the last one in each folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.database import Database, from_json
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, SkippedLine
from sessiond.importers.source_file import listed, mapped, rest_of
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_TOOL = "kiro"
_USED = ("conversation_id", "history", "transcript", "tools", "context_manager", "model_info", "next_message", "latest_summary",
       "valid_history_range", "tool_manager", "context_message_length")  # fmt: skip


def shown(one: object) -> object:
    """A piece of a result: `{kind, data}` or `{Text}`."""
    if not isinstance(one, dict):
        return one
    text = one.get("data") if one.get("kind") == "text" else one.get("Text")
    return {"type": "text", "text": text} if isinstance(text, str) else one


def read_rows(database: Database, path: str) -> Iterator[Event]:
    newer = bool(database.columns("conversations_v2"))
    table = "conversations_v2" if newer else "conversations"
    database.require(table, "key", "value")
    for row in database.rows(f"SELECT * FROM {table} ORDER BY rowid"):  # noqa: S608  # one of two names
        yield from alone(path, f"the conversation of {row['key']}", _conversation(path, row))


def _conversation(path: str, row: JsonObject) -> Iterator[Event]:
    value = from_json(row["value"])
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        yield SkippedLine(path, None, f"the conversation of {row['key']} has no history")
        return
    draft = SessionDraft(_TOOL, path, str(value.get("conversation_id") or row["key"]))
    model, created, updated = value.get("model_info"), row.get("created_at"), row.get("updated_at")
    yield draft.start(
        cwd=row["key"],
        createdAt=created,
        updatedAt=updated,
        model=mapped(model).get("model_id"),
        metadata=rest_of(value, *_USED),
    )
    for nth, entry in enumerate(value["history"], 1):
        yield from alone(path, f"entry {nth} of the conversation of {row['key']}", _entry(draft, entry))
    yield from draft.end()


def _entry(draft: SessionDraft, entry: Any) -> Iterator[Event]:
    """A prompt or the results of calls, and the answer."""
    user = mapped(entry).get("user")
    answer = mapped(entry).get("assistant")
    if isinstance(user, dict):
        yield from alone(draft.path, "a prompt", _asked(draft, user))
    if isinstance(answer, dict):
        yield from _answered(draft, answer, entry.get("request_metadata"))
    if not isinstance(user, dict) and not isinstance(answer, dict):
        draft.keep(entry)


def _asked(draft: SessionDraft, user: JsonObject) -> Iterator[Event]:
    turn = Turn("user", rest_of(user, "content", "timestamp"))
    content = user.get("content")
    kind, data = next(iter(content.items())) if isinstance(content, dict) and len(content) == 1 else (None, content)
    if kind == "Prompt" and isinstance(data, dict):
        turn.say(data.get("prompt"))
    elif isinstance(data, dict) and isinstance(data.get("tool_use_results"), list):
        turn.say(data.get("prompt"))
        cancelled = kind == "CancelledToolUses"
        for one in data["tool_use_results"]:
            if isinstance(one, dict):
                pieces = [shown(piece) for piece in listed(one.get("content"))]
                turn.result(one.get("tool_use_id"), pieces, error=cancelled or one.get("status") == "Error")
    else:
        turn.take(content)
    yield from turn.events(draft, time=user.get("timestamp"))


def _answered(draft: SessionDraft, answer: JsonObject, request: object) -> Iterator[Event]:
    kind, data = next(iter(answer.items()), ("", None))
    turn = Turn("assistant", {"request": request} if request else {})
    if kind not in ("Response", "ToolUse") or not isinstance(data, dict):
        turn.metadata["record"] = answer
        data = {}
    turn.say(data.get("content"))
    for call in map(mapped, listed(data.get("tool_uses"))):
        turn.call(call.get("id"), call.get("name"), call.get("args"))
    about = mapped(request)
    if isinstance(model := about.get("model_id"), str):
        draft.model = model
    yield from turn.events(draft, id=data.get("message_id"), time=about.get("request_start_timestamp_ms"))
