"""pi: `~/.pi/agent/sessions/<folder>/<time>_<uuid>.jsonl`, a header and one record per line. Newer files are a tree
by `parentId`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

from sessiond.importers.blocks import parts_of
from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.jsontext import as_text
from sessiond.importers.lines import LineReader, beheaded, head_objects, read_with
from sessiond.importers.record import Event, Ignored, Opener
from sessiond.importers.source_file import mapped, word
from sessiond.importers.usage import usage
from sessiond.model.values import JsonObject

_ROLES = {"toolResult": "tool"}
_STATUS = {"aborted": "interrupted", "error": "error"}
_SUMMARIES = ("compaction", "branch_summary")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_FILE = re.compile(rf"[\dTZ-]+_{_UUID.pattern}\.jsonl")


class Pi:
    name = "pi"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        for record in head_objects(head)[:3]:
            if record.get("type") == "session" and isinstance(record.get("id"), str) and "cwd" in record:
                return 90
        # The file's name says the same as a first record that is missing or damaged.
        is_named = _FILE.fullmatch(os.path.basename(path)) is not None and b'"message"' in head
        return 80 if is_named and any(map(_is_message, head_objects(head))) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(self.reader(path, open_), path, open_)

    def reader(self, path: str, open_: Opener) -> LineReader:
        del open_
        return _Reader(path)


def _is_message(record: JsonObject) -> bool:
    return record.get("type") == "message" and isinstance(record.get("message"), dict) and "parentId" in record


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._draft: SessionDraft | None = None
        self._ignored: Counter[str] = Counter()
        self._name: str | None = None
        self._late: JsonObject = {}

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind = record.get("type")
        if self._draft is None:
            if kind != "session":
                yield beheaded(self._path, line)
            yield self._begin(record)
            if kind == "session":
                return
        draft = self._draft
        assert draft is not None
        if kind in ("message", "custom_message"):
            yield from self._message(draft, line, record)
        elif kind in _SUMMARIES and isinstance(summary := record.get("summary"), str):
            metadata = {**_rest(record, "summary"), str(kind).replace("branch_summary", "branchSummary"): True}
            yield from draft.message(
                "system",
                summary,
                line=line,
                id=record.get("id"),
                time=record.get("timestamp"),
                metadata=metadata,
            )
        elif kind == "model_change":
            self._ignored["model_change"] += 1
            draft.model = word(record.get("modelId")) or draft.model
        elif kind == "thinking_level_change":
            self._ignored["thinking_level_change"] += 1
            self._late["thinkingLevel"] = record.get("thinkingLevel")
        elif kind == "session_info":
            self._name = name if isinstance(name := record.get("name"), str) else self._name
        else:
            draft.keep(record)

    def _begin(self, record: JsonObject) -> Event:
        header = record if record.get("type") == "session" else {}
        stem = os.path.basename(self._path).removesuffix(".jsonl")
        found = _UUID.findall(stem)
        own_id = header.get("id")
        source_id = own_id if isinstance(own_id, str) and own_id else found[-1] if found else stem
        draft = SessionDraft(Pi.name, self._path, source_id)
        begun = draft.start(
            createdAt=record.get("timestamp"),
            cwd=header.get("cwd"),
            model=header.get("modelId"),
            parent=_parent_of(header),
            metadata=_rest(header, "cwd", "modelId", PARENT),
        )
        self._draft = draft  # only now: a header that cannot be read begins no session
        return begun

    def _message(self, draft: SessionDraft, line: int, record: JsonObject) -> Iterator[Event]:
        message = record.get("message")
        marks: JsonObject = {}
        if record.get("type") == "custom_message":
            # An extension wrote it with the user's role.
            message, marks = (
                {"role": "user", "content": record.get("content")},
                {"injected": True, **_rest(record, "content", "message")},
            )
        if not isinstance(message, dict):
            draft.keep(record)
            return
        role = word(message.get("role")) or "unknown"
        if role == "system" and not message.get("content"):
            self._ignored["message/system without content"] += 1
            return
        used = {"role", "content", "toolCallId"}
        parts = parts_of(message.get("content"))
        if role == "bashExecution":
            used |= {"output"}
            parts.content = f"$ {_text(message.get('command'))}\n{_text(message.get('output'))}"
        if role == "assistant" and isinstance(model := message.get("model"), str):
            draft.model = model
        metadata = {
            **_rest(record, "message", "content"),
            **{k: v for k, v in message.items() if k not in used},
            **parts.metadata,
            **_tokens(record, message),
            **marks,
        }
        fields = parts.fields()
        if isinstance(message.get("toolCallId"), str):
            fields["toolCallId"] = message["toolCallId"]
        yield from draft.message(
            _ROLES.get(str(role), str(role)),
            parts.content,
            line=line,
            id=record.get("id"),
            time=record.get("timestamp") or message.get("timestamp"),
            metadata=metadata,
            status=_STATUS.get(str(message.get("stopReason"))),
            **fields,
        )

    def end(self) -> Iterator[Event]:
        if self._draft is not None:
            yield from self._draft.end(name=self._name, metadata=self._late)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)


def _tokens(record: JsonObject, message: JsonObject) -> JsonObject:
    """A branched session has a copy of the records that it branched from."""
    given = mapped(message.get("usage"))
    request = f"{record['id']}:{record.get('timestamp')}" if record.get("id") else None
    return usage(
        given.get("input"),
        given.get("output"),
        cache_read=given.get("cacheRead"),
        cache_write=given.get("cacheWrite"),
        reasoning=given.get("reasoning"),
        cost=mapped(given.get("cost")).get("total"),
        model=message.get("model"),
        request=request,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else as_text(value)


def _rest(record: JsonObject, *used: str) -> JsonObject:
    return {key: value for key, value in record.items() if key not in used and key not in ("type", "id", "timestamp")}


def _parent_of(header: JsonObject) -> JsonObject | None:
    """A branched session names the file that it branched from."""
    left = header.get("branchedFrom") or header.get("parentSession")
    if not isinstance(left, str) or not left:
        return came_from(header)
    name = re.split(r"[/\\]", left)[-1].removesuffix(".jsonl")
    found = _UUID.findall(name)
    return {"sessionId": suggest_id(Pi.name, found[-1] if found else name), "seq": None}
