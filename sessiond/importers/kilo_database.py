"""Kilo Code since version 7: `kilo.db` with `session`, `message` and `part`, as in opencode, from which it is made. A tool's
call and its result are one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.changed_rows import changed_only, changed_rows
from sessiond.importers.database import Database, from_json
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Ignored, RowsRead
from sessiond.importers.row_tables import ContentRows
from sessiond.importers.source_file import mapped, parent_of, rest_of, word
from sessiond.importers.turn import Turn
from sessiond.importers.usage import of_opencode
from sessiond.model.values import JsonObject

_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch"})
_ABOUT = ("id", "parent_id", "title", "directory", "time_created", "time_updated", "model", "slug")


def read_rows(
    tool: str, database: Database, path: str, before: RowsRead | None = None, *, only_changed: bool = False
) -> Iterator[Event]:
    """Every session of the database, or only those that are not what they were `before`."""
    tables = [ContentRows("message"), ContentRows("part")]
    changed = changed_rows(database, path, tables, before) if only_changed else None
    database.require("session", "id", "title", "directory")
    database.require("message", "id", "session_id", "time_created", "data")
    database.require("part", "id", "message_id", "data")
    silent: Counter[str] = Counter()
    for row in database.rows("SELECT * FROM session ORDER BY time_created, id"):
        draft = SessionDraft(tool, path, str(row["id"]))
        read = changed_only(changed, tool, path, str(row["id"]), row, _session(database, draft, row, silent))
        yield from alone(path, f"session {row['id']}", read)
    for kind, count in sorted(silent.items()):
        yield Ignored(path, kind, count)
    if changed is not None:
        yield changed.read()


def _session(database: Database, draft: SessionDraft, row: JsonObject, silent: Counter[str]) -> Iterator[Event]:
    parent = parent_of(draft.tool, row.get("parent_id"))
    yield draft.start(
        name=row["title"],
        cwd=row["directory"],
        createdAt=row.get("time_created"),
        updatedAt=row.get("time_updated"),
        archived=bool(row["time_archived"]) if "time_archived" in row else None,
        parent=parent,
        metadata={key: from_json(value) for key, value in rest_of(row, *_ABOUT).items() if value != 0}
        | ({"sidechain": True} if parent else {}),
    )
    query = "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id"
    for message in database.rows(query, row["id"]):
        yield from alone(draft.path, f"message {message['id']}", _message(database, draft, message, silent))
    yield from draft.end()


def _message(database: Database, draft: SessionDraft, row: JsonObject, silent: Counter[str]) -> Iterator[Event]:
    about = mapped(from_json(row["data"]))
    parts = [
        from_json(part["data"])
        for part in database.rows("SELECT data FROM part WHERE message_id = ? ORDER BY id", row["id"])
    ]
    turn = Turn(
        word(about.get("role")) or "unknown",
        rest_of(about, "role", "time", "tokens") | of_opencode({**about, "id": row["id"]}, parts),
        one_step=True,
    )
    for part in parts:
        if word(mapped(part).get("type")) in _SILENT:
            silent[part["type"]] += 1
        else:
            _take(turn, part)
    if turn.role == "user" and parts and all(mapped(part).get("synthetic") for part in parts):
        turn.metadata["injected"] = True
    if word(about.get("modelID")):
        draft.model = word(about["modelID"])
    status = "error" if about.get("error") else None
    yield from turn.events(draft, id=row["id"], time=row["time_created"], status=status)


def _take(turn: Turn, part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        turn.say(part.get("text"), **rest_of(part, "type", "text", "time"))
    elif kind == "reasoning":
        turn.think(part.get("text"))
    elif kind == "tool":
        state = mapped(part.get("state"))
        turn.call(part.get("callID"), part.get("tool"), state.get("input"))
        shown = state.get("output", state.get("error"))
        if shown is not None:
            turn.result(part.get("callID"), shown, rest_of(state, "input", "output", "error"), error="error" in state)
    elif part is not None:
        turn.add(part)
