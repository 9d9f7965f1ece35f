"""Crush: `crush.db` with `sessions` and `messages`. A message's `parts` are `{type, data}` pairs. Subagents are sessions
with a parent."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.changed_rows import ChangedRows, changed_only, changed_rows
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Opener, RowsRead
from sessiond.importers.row_tables import ContentRows
from sessiond.model.values import JsonObject

_SESSION_USED = frozenset({"id", "parent_session_id", "title", "created_at", "updated_at"})
_MESSAGE_USED = frozenset({"id", "session_id", "role", "parts", "created_at"})
_STATUS = {"canceled": "interrupted", "error": "error"}


class Crush:
    name = "crush"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        return recognised(path, head, name="crush.db", words=(b"parent_session_id", b"parts"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path, None))

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        tables = [ContentRows("messages")]
        return guarded(path, open_, lambda one: _read(one, path, changed_rows(one, path, tables, before)))


def _read(database: Database, path: str, changed: ChangedRows | None) -> Iterator[Event]:
    database.require("sessions", "id", "title")
    database.require("messages", "id", "session_id", "role", "parts", "created_at")
    for session in database.rows("SELECT * FROM sessions ORDER BY created_at, id"):
        read = changed_only(changed, Crush.name, path, str(session["id"]), session, _session(database, path, session))
        yield from alone(path, f"session {session['id']}", read)
    if changed is not None:
        yield changed.read()


def _session(database: Database, path: str, session: JsonObject) -> Iterator[Event]:
    draft = SessionDraft(Crush.name, path, str(session["id"]))
    parent = session.get("parent_session_id")
    yield draft.start(
        name=session["title"],
        createdAt=session.get("created_at"),
        updatedAt=session.get("updated_at"),
        parent={"sessionId": suggest_id(Crush.name, parent), "seq": None}
        if isinstance(parent, str) and parent
        else None,
        metadata={
            key: from_json(value)
            for key, value in session.items()
            if key not in _SESSION_USED and value not in (None, "")
        },
    )
    for row in database.rows("SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid", session["id"]):
        yield from alone(path, f"message {row['id']}", _message(draft, row))
    yield from draft.end()


def _message(draft: SessionDraft, row: JsonObject) -> Iterator[Event]:
    blocks: list[object] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    results: list[str] = []
    metadata = {key: value for key, value in row.items() if key not in _MESSAGE_USED and value is not None}
    status = None
    parts = from_json(row["parts"])
    for part in parts if isinstance(parts, list) else [parts]:
        kind = part.get("type") if isinstance(part, dict) else None
        given = part.get("data") if isinstance(part, dict) else None
        data: JsonObject = given if isinstance(given, dict) else {}
        if kind == "text":
            blocks.append({"type": "text", **data, "text": str(data.get("text") or "")})
        elif kind == "reasoning":
            thoughts.append(str(data.get("thinking") or ""))
        elif kind == "tool_call":
            calls.append(tool_call(data.get("id"), data.get("name"), data.get("input")))
        elif kind == "tool_result":
            results.append(str(data.get("tool_call_id") or ""))
            blocks.append({"type": "text", "text": _text(data.get("content"))})
            metadata |= {"isError": True} if data.get("is_error") else {}
            metadata["toolResult"] = {
                k: v for k, v in data.items() if k not in ("content", "tool_call_id") and v not in (None, "")
            }
        elif kind == "finish":
            metadata["finish"] = data
            status = _STATUS.get(str(data.get("reason")))
        elif part is not None:
            blocks.append(part)
    if isinstance(model := row.get("model"), str) and row["model"]:
        draft.model = model
    if len(results) > 1:
        metadata["toolCallIds"] = results
    yield from draft.message(
        str(row["role"]),
        simple([block for block in blocks if block != {"type": "text", "text": ""}]),
        id=row["id"],
        time=row["created_at"],
        metadata=metadata,
        status=status,
        thinking="\n\n".join(thoughts) if thoughts else None,
        toolCalls=calls or None,
        toolCallId=results[0] if results else None,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else as_text(value)
