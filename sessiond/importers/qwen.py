"""Qwen Code: `~/.qwen/projects/<folder>/chats/<uuid>.jsonl`, one record per line. The tree is Claude Code's (`parentUuid`), a
message's parts are Gemini's.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from sessiond.importers import google_parts, usage
from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.claude_code_repeats import REPEAT, ClaudeCodeRepeats
from sessiond.importers.claude_code_start import ResumedSession
from sessiond.importers.claude_code_tree import ANSWER, OTHER, PROMPT, RESULT, Tree, TreeRecord, tree_of
from sessiond.importers.draft import SessionDraft
from sessiond.importers.kept_google import QwenOutputs
from sessiond.importers.kept_output import KEY
from sessiond.importers.lines import LineReader, head_objects, read_with
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine, open_source
from sessiond.importers.source_file import listed, mapped, word
from sessiond.model.values import JsonObject

_KINDS = {"user": PROMPT, "assistant": ANSWER, "tool_result": RESULT}
_ROLES = {"user": "user", "assistant": "assistant"}
_USED = frozenset({"type", "uuid", "timestamp", "message", "toolCallResult", PARENT})
_SILENT = frozenset({"at_command", "attribution_snapshot", "custom_title", "rewind", "slash_command", "ui_telemetry"})
"""Kinds of system records in which nobody says anything."""
_NAME_CHARS = 80


class Qwen:
    name = "qwen"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        return 96 if any(is_qwen(record) for record in head_objects(head)) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(self.reader(path, open_), path, open_)

    def reader(self, path: str, open_: Opener) -> LineReader:
        # A first pass, because only the last record shows which branches were abandoned. Its bytes are not counted as read.
        return _Reader(path, tree_of(path, open_source, _kind), open_)


def is_qwen(record: JsonObject) -> bool:
    """Return whether a record with Claude Code's tree is one of Qwen Code's."""
    message = record.get("message")
    if "parentUuid" not in record or "sessionId" not in record:
        return False
    return "systemPayload" in record or (isinstance(message, dict) and isinstance(message.get("parts"), list))


def _kind(record: TreeRecord) -> int:
    return _KINDS.get(record.type, OTHER) if isinstance(record.type, str) else OTHER


class _Reader:
    def __init__(self, path: str, tree: Tree, open_: Opener) -> None:
        self._path = path
        self._outputs = QwenOutputs(path, open_)
        self._tree = tree
        self._draft = SessionDraft(Qwen.name, path, os.path.basename(path).removesuffix(".jsonl"))
        self._repeats = ClaudeCodeRepeats(path, open_source, tree, self._draft.has)
        self._ignored: Counter[str] = Counter()
        self._name: str | None = None
        self._first: str | None = None
        self._came_from: JsonObject | None = None
        self._continued = ResumedSession(self._draft)

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        self._continued.take(record)
        fullest = self._repeats.take(line, record)
        if fullest is None:
            yield SkippedLine(self._path, line, REPEAT)
        else:
            yield from self._read(line, fullest)

    def stands_with(self, before: int, lines: Sequence[bytes]) -> bool:
        return self._tree.stands_with(before, lines)

    def _read(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind, message, payload = record.get("type"), record.get("message"), record.get("systemPayload")
        parts = message.get("parts") if isinstance(message, dict) else None
        if isinstance(parts, list):
            yield from self._message(line, record, str(kind), parts)
            return
        if isinstance(payload, dict) and isinstance(custom_title := payload.get("customTitle"), str):
            self._name = custom_title
        subtype = record.get("subtype")
        if subtype == "chat_compression" and isinstance(payload, dict):
            yield from self._compression(line, record, payload)
        elif kind == "system" and word(subtype) in _SILENT:
            self._ignored[f"system/{subtype}"] += 1
        else:
            self._draft.unknown(f"{kind}/{subtype}" if subtype else kind)

    def _compression(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        """The summary, written by a model, that the model gets from then on; it is the first of what is sent instead."""
        sent = listed(payload.get("compressedHistory"))
        parts = mapped(sent[0]).get("parts") if sent else None
        yield from self._draft.message(
            "system",
            google_parts.content(parts),
            line=line,
            id=record.get("uuid"),
            time=record.get("timestamp"),
            metadata={"compaction": True, **mapped(payload.get("info"))},
        )

    def _message(self, line: int, record: JsonObject, kind: str, parts: list[object]) -> Iterator[Event]:
        if not self._draft.started:
            about = {key: record[key] for key in ("gitBranch", "version", "sessionId") if record.get(key)}
            self._came_from = came_from(record)
            yield self._draft.start(
                createdAt=record.get("timestamp"), cwd=record.get("cwd"), parent=self._came_from, metadata=about
            )
        said, thinking, calls, results = google_parts.split(parts)
        metadata = {key: value for key, value in record.items() if key not in _USED}
        # A branch begins with a copy of the records before it.
        metadata |= usage.google(record.get("usageMetadata"), model=record.get("model"), request=record.get("uuid"))
        if word(record.get("uuid")) in self._tree.off_path:
            metadata["branch"] = True
        if isinstance(model := record.get("model"), str):
            self._draft.model = model
        content = google_parts.content(said)
        if kind == "user" and self._first is None and isinstance(content, str):
            self._first = content
        if said or calls or thinking or not results:
            yield from self._draft.message(
                _ROLES.get(kind, "system"),
                content,
                line=line,
                id=record.get("uuid"),
                time=record.get("timestamp"),
                metadata=metadata,
                thinking=thinking,
                toolCalls=calls or None,
            )
            metadata = {}
        for nth, (call_id, part) in enumerate(results):
            yield from self._result(line, record, nth if said or nth else None, call_id, part, metadata)

    def _result(
        self, line: int, record: JsonObject, nth: int | None, call_id: str, part: object, metadata: JsonObject
    ) -> Iterator[Event]:
        shown = record.get("toolCallResult")
        uuid = record.get("uuid")
        said, kept = self._outputs.take(google_parts.content([part]))
        metadata = {**metadata, **({"toolCallResult": shown} if shown else {}), **({KEY: kept} if kept else {})}
        yield from self._draft.message(
            "tool",
            said,
            line=line,
            id=uuid if nth is None else f"{uuid}-{nth}",
            time=record.get("timestamp"),
            metadata=metadata,
            toolCallId=call_id,
        )

    def end(self) -> Iterator[Event]:
        first = " ".join(self._first.split())[:_NAME_CHARS] if self._first else None
        parent = None if self._came_from else self._continued.parent
        yield from (*self._tree.failed, *self._repeats.failed)
        yield from self._draft.end(name=self._name or first, parent=parent)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)
