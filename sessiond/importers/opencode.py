"""opencode: `opencode.db` with `session`, `message` and `part`; a message is made of its parts, and a tool's call
and result are one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Opener
from sessiond.model.values import JsonObject

_SESSION_USED = frozenset({"id", "parent_id", "title", "directory", "time_created", "time_updated"})
_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch"})


class OpenCode:
    name = "opencode"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        return recognised(path, head, name="opencode.db", words=(b"project_id", b"message_id", b"time_created"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path))


def _read(database: Database, path: str) -> Iterator[Event]:
    database.require("session", "id")
    database.require("message", "id", "session_id", "time_created", "data")
    database.require("part", "id", "message_id", "data")
    for session in database.rows("SELECT * FROM session ORDER BY id"):
        draft = SessionDraft(OpenCode.name, path, str(session["id"]))
        rest = {
            key: from_json(value)
            for key, value in session.items()
            if key not in _SESSION_USED and value not in (None, "")
        }
        parent = session.get("parent_id")
        model = rest.get("model")
        yield draft.start(
            name=session.get("title"),
            cwd=session.get("directory"),
            createdAt=session.get("time_created"),
            updatedAt=session.get("time_updated"),
            model=model.get("id") if isinstance(model, dict) else None,
            parent={"sessionId": suggest_id(OpenCode.name, parent), "seq": None} if isinstance(parent, str) else None,
            metadata=rest,
        )
        for row in database.rows("SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", session["id"]):
            yield from _message(database, draft, row)
        yield from draft.end()


def _message(database: Database, draft: SessionDraft, row: JsonObject) -> Iterator[Event]:
    about = from_json(row["data"])
    about = about if isinstance(about, dict) else {"data": about}
    found = database.rows("SELECT * FROM part WHERE message_id = ? ORDER BY id", row["id"])
    parts = [(str(part["id"]), from_json(part["data"])) for part in found]
    blocks: list[Any] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    results: list[tuple[str, JsonObject]] = []
    silent: list[Any] = []
    for part_id, part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning":
            thoughts.append(str(part.get("text") or ""))
        elif kind == "tool":
            state = part.get("state") if isinstance(part.get("state"), dict) else {}
            calls.append(tool_call(part.get("callID"), part.get("tool"), state.get("input")))
            results.append((part_id, part))
        elif kind in _SILENT:
            silent.append(part)
        elif kind == "text" and isinstance(part.get("text"), str):
            more = {key: value for key, value in part.items() if key not in ("type", "text", "time")}
            blocks.append({"type": "text", "text": part["text"], **more})
        else:
            blocks.append(part)
    metadata = {key: value for key, value in about.items() if key not in ("role", "time")}
    if silent:
        metadata["parts"] = silent
    if (
        blocks
        and all(isinstance(block, dict) and block.get("synthetic") for block in blocks)
        and about.get("role") == "user"
    ):
        metadata["injected"] = True
    if isinstance(about.get("modelID"), str):
        draft.model = about["modelID"]
    role = about.get("role") if isinstance(about.get("role"), str) else "unknown"
    fields: JsonObject = {"thinking": "\n\n".join(thoughts) if thoughts else None, "toolCalls": calls or None}
    status = "error" if about.get("error") else None
    yield from draft.message(
        str(role), simple(blocks), id=row["id"], time=row["time_created"], metadata=metadata, status=status, **fields
    )
    for part_id, part in results:
        yield from _result(draft, part_id, part)


def _result(draft: SessionDraft, part_id: str, part: JsonObject) -> Iterator[Event]:
    state = part.get("state") if isinstance(part.get("state"), dict) else {}
    assert isinstance(state, dict)
    output = state.get("output", state.get("error"))
    if output is None:
        return
    times = state.get("time") if isinstance(state.get("time"), dict) else {}
    assert isinstance(times, dict)
    metadata = {key: value for key, value in state.items() if key not in ("input", "output", "time", "error")}
    if "error" in state:
        metadata["isError"] = True
    yield from draft.message(
        "tool",
        output if isinstance(output, str) else as_text(output),
        id=part_id,
        time=times.get("end") or times.get("start"),
        metadata=metadata,
        toolCallId=str(part.get("callID") or ""),
    )
