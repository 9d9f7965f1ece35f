"""Plain lists of `{role, content}`: a JSON array, an object with `messages`, or JSON Lines. Understands the field names
of OpenAI and Anthropic."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.blocks import parts_of, tool_call
from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft, digest, moment
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.lines import LINE_SUFFIXES, head_objects, objects
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.model.values import JsonObject, WireObject

_ARRAYS = frozenset({"messages"})
_ARRAY = re.compile(rb"\[\s*(?:\{|\]|$)")
_HEAD_BYTES = 1 << 16
_LOOKED_AT = 10
"""Number of records checked: in a file of this kind, at least half of them are messages."""
_TIMES = ("timestamp", "created_at", "createdAt", "ts", "time", "date")
_TAKEN = frozenset(
    {
        "id",
        "role",
        "content",
        "tool_calls",
        "toolCalls",
        "tool_call_id",
        "toolCallId",
        "thinking",
        "reasoning_content",
        "metadata",
    }
)
_PASSED = ("thread", "tick", "contextSnapshot")


class Messages:
    name = "messages"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith((".json", *LINE_SUFFIXES)):
            return 0
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if path.endswith(".json"):
            shown = b'"role"' in text and (b'"content"' in text or b'"tool_calls"' in text)
            return 40 if shown and (text.startswith(b"[") or b'"messages"' in text) else 0
        found = [_is_message(record) for record in head_objects(head)[:_LOOKED_AT]]
        return 40 if found and sum(found) * 2 >= len(found) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        stem = os.path.splitext(os.path.basename(path))[0]
        draft = SessionDraft(
            Messages.name, path, f"{stem}-{digest(os.path.realpath(path))}", fallback_time=_file_time(path)
        )
        about: JsonObject = {}
        found: Iterator[tuple[int, Any] | SkippedLine]
        found = _elements(path, open_, about) if _is_document(path, open_) else objects(path, open_)
        for entry in found:
            if isinstance(entry, SkippedLine):
                yield entry
                continue
            line, message = entry
            if not _is_message(message):
                yield SkippedLine(path, line, "not a message: it needs a role and content")
                continue
            if not draft.started:
                yield draft.start(name=stem, createdAt=_time_of(message) or _file_time(path))
            yield from alone(path, "this message", _message(draft, line, message), line)
        yield from draft.end(
            name=about.get("title") or about.get("name"),
            model=about.get("model"),
            metadata={"document": about} if about else None,
        )


def _is_document(path: str, open_: Opener) -> bool:
    """Return whether the file is one JSON value, not one per line."""
    with open_(path) as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    if path.endswith(LINE_SUFFIXES):
        return _ARRAY.match(head) is not None and not _is_whole(head)
    return not head.startswith(b"{") or not any(_is_message(record) for record in head_objects(head)[:1])


def _is_whole(head: bytes) -> bool:
    """Return whether a value ends at the end of the first line, and more lines follow."""
    first, _, rest = head.partition(b"\n")
    try:
        return bool(rest.strip()) and decode(first) is not None
    except NotJson:
        return False


def _elements(path: str, open_: Opener, about: JsonObject) -> Iterator[tuple[int, Any] | SkippedLine]:
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element:
            yield item.line, item.value
        else:
            about[item.member] = item.value


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and bool({"content", "tool_calls", "toolCalls"} & value.keys())
    )


def _time_of(message: JsonObject) -> object:
    return next((message[key] for key in _TIMES if message.get(key) is not None), None)


def _file_time(path: str) -> str | None:
    """Return when the file was last written, the best guess for a list without times."""
    try:
        return moment(os.stat(path).st_mtime)
    except OSError:
        return None


def _message(draft: SessionDraft, line: int, message: JsonObject) -> Iterator[Event]:
    parts = parts_of(message.get("content"))
    fields: WireObject = parts.fields()
    calls = message.get("tool_calls", message.get("toolCalls"))
    if isinstance(calls, list):
        fields["toolCalls"] = fields.get("toolCalls", []) + [_call(call) for call in calls if isinstance(call, dict)]
    call_id = message.get("tool_call_id", message.get("toolCallId"))
    if isinstance(call_id, str):
        fields["toolCallId"] = call_id
    thinking = message.get("thinking", message.get("reasoning_content"))
    if isinstance(thinking, str):
        fields["thinking"] = thinking
    time = _time_of(message)
    rest = {
        key: value for key, value in message.items() if key not in _TAKEN and key not in _PASSED and value is not time
    }
    given = message.get("metadata")
    metadata = {
        **rest,
        **(given if isinstance(given, dict) else {"metadata": given} if given is not None else {}),
        **parts.metadata,
    }
    for key in _PASSED:
        if (
            message.get(key) is not None
            and (key != "tick" or isinstance(message[key], int))
            and (key != "thread" or isinstance(message[key], str))
        ):
            fields[key] = message[key]
    role = str(message["role"])
    role = "tool" if parts.result_ids and role == "user" else role
    if isinstance(model := message.get("model"), str):
        draft.model = model
    yield from draft.message(
        role, parts.content, line=line, id=message.get("id"), time=time, metadata=metadata, **fields
    )


def _call(call: JsonObject) -> JsonObject:
    """OpenAI nests a call's name and arguments under `function`."""
    function = call.get("function")
    if isinstance(function, dict):
        return tool_call(call.get("id"), function.get("name"), function.get("arguments"))
    rest = {key: value for key, value in call.items() if key not in ("id", "name", "arguments", "input", "type")}
    return tool_call(call.get("id"), call.get("name"), call.get("arguments", call.get("input"))) | rest
