"""opencode: `opencode.db` with `session`, `message` and `part`; a message is made of its parts, and a tool's call
and result are one part."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.document import items, members
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, rest_of, stem
from sessiond.importers.usage import of_opencode
from sessiond.model.values import JsonObject

_ARRAYS = frozenset({"messages"})
_SESSION_USED = frozenset({"id", "parent_id", "title", "directory", "time_created", "time_updated"})
_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch"})


class OpenCode:
    name = "opencode"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            if b'"info"' in head and b'"messages"' in head and b'"ses_' in head:
                return 85
            return 85 if b'"projectID"' in head and _stored_in(path) else 0
        return recognised(path, head, name="opencode.db", words=(b"project_id", b"message_id", b"time_created"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if not path.endswith(".json"):
            yield from guarded(path, open_, lambda database: _read(database, path))
        elif _stored_in(path):
            yield from _stored(path, open_)
        else:
            yield from _exported(path, open_)


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
        if isinstance(parent, str):
            rest["sidechain"] = True
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
            about = from_json(row["data"])
            about = about if isinstance(about, dict) else {"data": about}
            found = database.rows("SELECT * FROM part WHERE message_id = ? ORDER BY id", row["id"])
            parts = [(str(part["id"]), from_json(part["data"])) for part in found]
            yield from _message(draft, {**about, "id": row["id"]}, row["time_created"], parts)
        yield from draft.end()


def _exported(path: str, open_: Opener) -> Iterator[Event]:
    """What `opencode export` writes: `{info, messages: [{info, parts}]}`."""
    info = mapped(members(path, open_, _ARRAYS).get("info"))
    draft = SessionDraft(OpenCode.name, path, str(info.get("id") or stem(path)))
    yield _start(draft, info)
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element:
            entry = mapped(item.value)
            yield from _of_document(draft, mapped(entry.get("info")), map(mapped, listed(entry.get("parts"))))
    yield from draft.end()


def _stored_in(path: str) -> str | None:
    """The `storage` folder of a session's file (`storage/session/PROJECT/ID.json`), which versions before 1.2 wrote."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    storage = os.path.dirname(folder)
    there = os.path.basename(folder) == "session" and os.path.isdir(os.path.join(storage, "message"))
    return storage if there else None


def _stored(path: str, open_: Opener) -> Iterator[Event]:
    """A file for each session, each message (`message/SESSION/ID.json`) and each part (`part/MESSAGE/ID.json`)."""
    storage = _stored_in(path) or ""
    info = members(path, open_, frozenset())
    draft = SessionDraft(OpenCode.name, path, str(info.get("id") or stem(path)))
    yield _start(draft, info)
    for message in _files(os.path.join(storage, "message", stem(path))):
        parts = (members(part, open_, frozenset()) for part in _files(os.path.join(storage, "part", stem(message))))
        yield from _of_document(draft, members(message, open_, frozenset()), parts)
    yield from draft.end()


def _files(folder: str) -> list[str]:
    """The JSON files of a folder in the order of their ids, which is that of time."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


def _start(draft: SessionDraft, info: JsonObject) -> Event:
    times = mapped(info.get("time"))
    parent = info.get("parentID")
    return draft.start(
        name=info.get("title"),
        cwd=info.get("directory"),
        createdAt=times.get("created"),
        updatedAt=times.get("updated"),
        parent={"sessionId": suggest_id(OpenCode.name, parent), "seq": None} if isinstance(parent, str) else None,
        metadata=rest_of(info, "id", "parentID", "title", "directory", "time")
        | ({"sidechain": True} if isinstance(parent, str) else {}),
    )


def _of_document(draft: SessionDraft, about: JsonObject, parts: Iterable[JsonObject]) -> Iterator[Event]:
    """A message and its parts, whose ids, and those of what they belong to, are in the objects themselves."""
    own = {key: value for key, value in about.items() if key != "sessionID"}
    listed_parts: list[tuple[str, Any]] = []
    for part in parts:
        rest = {key: value for key, value in part.items() if key not in ("id", "messageID", "sessionID")}
        listed_parts.append((str(part.get("id") or ""), rest))
    yield from _message(draft, own, mapped(about.get("time")).get("created"), listed_parts)


def _message(draft: SessionDraft, about: JsonObject, time: Any, parts: list[tuple[str, Any]]) -> Iterator[Event]:
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
    metadata = {key: value for key, value in about.items() if key not in ("id", "role", "time", "tokens")}
    metadata |= of_opencode(about)
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
        str(role), simple(blocks), id=about.get("id"), time=time, metadata=metadata, status=status, **fields
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
