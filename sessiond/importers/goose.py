"""Goose: `sessions.db` with `sessions` and `messages`; a message's content is a list of typed parts. Before that a session was a
JSON Lines file: a header, then the messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.blocks import simple, text_block, tool_call
from sessiond.importers.changed_rows import ChangedRows, changed_only, changed_rows
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, local_moment, utc_moment
from sessiond.importers.jsontext import as_text
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Opener, RowsRead
from sessiond.importers.row_tables import ContentRows
from sessiond.importers.source_file import word
from sessiond.model.values import JsonObject, WireObject

_NOTICES = frozenset(
    {
        "conversationCompacted", "contextLengthExceeded", "summarizationRequested", "systemNotification", "toolConfirmationRequest",
        "actionRequired",
    }
)  # fmt: skip
"""Parts that Goose shows to the user in its own name, whatever role it files them under."""
_SESSION_USED = frozenset({"id", "name", "description", "working_dir", "created_at", "updated_at"})


class Goose:
    name = "goose"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".jsonl"):
            first = next(iter(head_objects(head)), {})
            return 90 if "working_dir" in first and ("message_count" in first or "description" in first) else 0
        return recognised(path, head, name="sessions.db", words=(b"content_json", b"created_timestamp"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if path.endswith(".jsonl"):
            yield from read_with(_Lines(path), path, open_)
        else:
            yield from guarded(path, open_, lambda database: _read(database, path, None))

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        tables = [ContentRows("messages")]
        return guarded(path, open_, lambda one: _read(one, path, changed_rows(one, path, tables, before)))


class _Lines:
    """A session of an older version. Its id is the file's name, which is the time at which it began."""

    def __init__(self, path: str) -> None:
        self._draft = SessionDraft(Goose.name, path, os.path.basename(path).removesuffix(".jsonl"))

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        del line
        draft = self._draft
        if not draft.started:
            header = {} if "role" in record else record
            rest = {key: value for key, value in header.items() if key not in _SESSION_USED and value not in (None, "")}
            yield draft.start(
                name=header.get("description"),
                cwd=header.get("working_dir"),
                createdAt=local_moment_of(draft.source_id),
                metadata=rest,
            )
            if header:
                return
        if isinstance(record.get("role"), str) and "content" in record:
            row = {
                "role": record["role"],
                "content_json": record["content"],
                "created_timestamp": record.get("created"),
            }
            yield from _message(draft, {**row, "message_id": record.get("id"), "metadata_json": record.get("metadata")})
        else:
            draft.keep(record)

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()


def local_moment_of(stem: str) -> str | None:
    """The time in a name such as `20250311_142530`; None if there is none."""
    found = re.match(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stem)
    return local_moment("{}-{}-{} {}:{}:{}".format(*found.groups())) if found else None


def _read(database: Database, path: str, changed: ChangedRows | None) -> Iterator[Event]:
    database.require("sessions", "id")
    database.require("messages", "id", "session_id", "role", "content_json", "created_timestamp")
    for session in database.rows("SELECT * FROM sessions ORDER BY id"):
        read = changed_only(changed, Goose.name, path, str(session["id"]), session, _session(database, path, session))
        yield from alone(path, f"session {session['id']}", read)
    if changed is not None:
        yield changed.read()


def _session(database: Database, path: str, session: JsonObject) -> Iterator[Event]:
    draft = SessionDraft(Goose.name, path, str(session["id"]))
    rest = {
        key: from_json(value)
        for key, value in session.items()
        if key not in _SESSION_USED and value not in (None, "", "{}")
    }
    model = rest.get("model_config_json")
    yield draft.start(
        name=session.get("name") or session.get("description"),
        cwd=session.get("working_dir"),
        createdAt=utc_moment(session.get("created_at")),
        updatedAt=utc_moment(session.get("updated_at")),
        model=model.get("model_name") if isinstance(model, dict) else None,
        metadata=rest,
    )
    for row in database.rows(
        "SELECT * FROM messages WHERE session_id = ? ORDER BY created_timestamp, id", session["id"]
    ):
        yield from alone(path, f"message {row['id']}", _message(draft, row))
    yield from draft.end()


class _Parts:
    """The parts of a message, each where it belongs."""

    def __init__(self) -> None:
        self.blocks: list[object] = []
        self.thoughts: list[str] = []
        self.calls: list[JsonObject] = []
        self.results: list[str] = []
        self.notices: list[JsonObject] = []
        self.metadata: WireObject = {}

    def take(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("thinking", "reasoning"):
            self.thoughts.append(str(part.get("thinking") or part.get("text") or ""))
        elif kind == "redactedThinking":
            self.metadata.setdefault("thinkingBlocks", []).append(part)
        elif kind in ("toolRequest", "frontendToolRequest"):
            self.calls.append(_call(part))
        elif kind == "toolResponse":
            self.results.append(str(part.get("id") or ""))
            self.blocks += _result(part, self.metadata)
        elif word(kind) in _NOTICES:
            self.notices.append(part)
        elif part is not None:
            self.blocks.append(text_block(part))

    def settle(self) -> bool:
        """Put the notices where they belong. Returns whether the message is nothing but notices."""
        alone = bool(self.notices) and not (self.blocks or self.thoughts or self.calls or self.results or self.metadata)
        if alone:
            self.blocks = [text_block(one["msg"]) for one in self.notices if isinstance(one.get("msg"), str)]
            self.metadata = {"record": self.notices, "injected": True}
        elif self.notices:
            self.metadata["notices"] = self.notices
        return alone


def _message(draft: SessionDraft, row: JsonObject) -> Iterator[Event]:
    parts = _Parts()
    content = from_json(row["content_json"])
    for part in content if isinstance(content, list) else [content]:
        parts.take(part)
    is_notice = parts.settle()
    metadata, results = parts.metadata, parts.results
    given = from_json(row.get("metadata_json"))
    if isinstance(given, dict):
        metadata |= given
        if given.get("userVisible") is False and row["role"] == "user":
            metadata["injected"] = True
    if row.get("tokens") is not None:
        metadata["tokenCount"] = row["tokens"]
    if len(results) > 1:
        metadata["toolCallIds"] = results
    yield from draft.message(
        "tool" if results else "system" if is_notice else str(row["role"]),
        simple(parts.blocks),
        id=row.get("message_id") or row.get("id"),
        time=row["created_timestamp"],
        metadata=metadata,
        thinking="\n\n".join(parts.thoughts) if parts.thoughts else None,
        toolCalls=parts.calls or None,
        toolCallId=results[0] if results else None,
    )


def _call(part: JsonObject) -> JsonObject:
    outer = part.get("toolCall")
    value = outer.get("value") if isinstance(outer, dict) else None
    if not isinstance(value, dict):
        return tool_call(part.get("id"), "", as_text(outer))
    return tool_call(part.get("id"), value.get("name"), value.get("arguments"))


def _result(part: JsonObject, metadata: JsonObject) -> list[object]:
    """A result's content blocks. Goose wraps them as `{status, value}`; newer versions put another `{content, isError}`
    inside.
    """
    outer = part.get("toolResult")
    value = outer.get("value") if isinstance(outer, dict) else outer
    if isinstance(outer, dict) and outer.get("status") == "error":
        metadata["isError"] = True
        value = outer.get("error", value)
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        if value.get("isError"):
            metadata["isError"] = True
        value = value["content"]
    if isinstance(value, list):
        return [text_block(block) for block in value]
    return [{"type": "text", "text": value if isinstance(value, str) else as_text(value)}] if value is not None else []
