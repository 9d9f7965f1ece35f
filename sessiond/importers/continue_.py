"""Continue: `~/.continue/sessions/<id>.json` (`{sessionId, title, workspaceDirectory, history}`); `sessions.json`
next to them has the times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from sessiond.importers.alone import alone
from sessiond.importers.blocks import parts_of, tool_call
from sessiond.importers.document import DocumentItem, items, members
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import word
from sessiond.model.values import JsonObject

_ARRAYS = frozenset({"history"})


class Continue:
    name = "continue"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or os.path.basename(path) == "sessions.json":
            return 0
        if b'"history"' not in head or b'"sessionId"' not in head:
            return 0
        return 85 if b'"workspaceDirectory"' in head or b'"contextItems"' in head else 60

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        about = members(path, open_, _ARRAYS)
        source_id = word(about.get("sessionId"))
        source_id = source_id or os.path.basename(path).removesuffix(".json")
        created = _created(path, source_id, open_) or _mtime(path)
        draft = SessionDraft(self.name, path, source_id, fallback_time=created)
        answered = _answered(path, open_)
        rest = {key: value for key, value in about.items() if key not in ("sessionId", "title", "workspaceDirectory")}
        yield draft.start(
            name=about.get("title"), cwd=_folder(about.get("workspaceDirectory")), createdAt=created, metadata=rest
        )
        for item in items(path, open_, _ARRAYS):
            if isinstance(item, SkippedLine):
                yield item
            elif item.element:
                yield from alone(path, "this message", _turn(draft, item, answered), item.line)
        yield from draft.end(model=about.get("chatModelTitle"))


def _created(path: str, source_id: str, open_: Opener) -> str | None:
    """Return when the session was created, according to the list next to it."""
    listing = os.path.join(os.path.dirname(path), "sessions.json")
    if not os.path.isfile(listing):
        return None
    for item in items(listing, open_, frozenset()):
        if isinstance(item, DocumentItem) and isinstance(item.value, dict) and item.value.get("sessionId") == source_id:
            date = item.value.get("dateCreated")
            return moment(int(date)) if isinstance(date, str) and date.isascii() and date.isdigit() else moment(date)
    return None


def _mtime(path: str) -> str | None:
    try:
        return moment(os.stat(path).st_mtime)
    except OSError:
        return None


def _folder(workspace: object) -> str | None:
    if not isinstance(workspace, str) or not workspace:
        return None
    return unquote(urlsplit(workspace).path) if workspace.startswith("file:") else workspace


def _answered(path: str, open_: Opener) -> set[str]:
    """Ids of the calls whose results are messages of their own."""
    found: set[str] = set()
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, DocumentItem) and item.element and isinstance(item.value, dict):
            message = item.value.get("message", item.value)
            if isinstance(message, dict) and isinstance(message.get("toolCallId"), str):
                found.add(message["toolCallId"])
    return found


def _results(entry: JsonObject, answered: set[str]) -> Iterator[tuple[str, str, JsonObject]]:
    """The results that are in the state of their calls: call id, text, and the rest of the state."""
    states = entry.get("toolCallStates", [entry.get("toolCallState")])
    for state in states if isinstance(states, list) else []:
        call_id = state.get("toolCallId") if isinstance(state, dict) else None
        output = state.get("output") if isinstance(state, dict) else None
        if isinstance(call_id, str) and call_id not in answered and isinstance(output, list) and output:
            texts = [one.get("content") if isinstance(one, dict) else one for one in output]
            rest = {key: state[key] for key in ("status", "processedArgs") if state.get(key) is not None}
            yield call_id, "\n".join(text if isinstance(text, str) else as_text(text) for text in texts), rest


def _turn(draft: SessionDraft, item: DocumentItem, answered: set[str]) -> Iterator[Event]:
    entry = item.value
    message = entry.get("message", entry) if isinstance(entry, dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        yield SkippedLine(draft.path, item.line, "an element of `history` that is not a message")
        return
    parts = parts_of(message.get("content"))
    used = {"id", "role", "content", "toolCalls", "toolCallId"}
    metadata = {key: value for key, value in message.items() if key not in used} | parts.metadata
    if message is not entry:
        metadata |= {key: value for key, value in entry.items() if key != "message" and value not in (None, [], {})}
    fields = parts.fields()
    calls = message.get("toolCalls")
    if isinstance(calls, list) and calls:
        fields["toolCalls"] = [_call(call) for call in calls if isinstance(call, dict)]
    if isinstance(message.get("toolCallId"), str):
        fields["toolCallId"] = message["toolCallId"]
    role, content = message["role"], parts.content
    if role == "thinking":
        role, content, fields["thinking"] = "assistant", "", content if isinstance(content, str) else as_text(content)
    message_id = message.get("id")
    yield from draft.message(
        role, content, line=item.line, id=message_id, time=entry.get("timestamp"), metadata=metadata, **fields
    )
    for call_id, text, rest in _results(entry, answered):
        yield from draft.message(
            "tool", text, line=item.line, time=entry.get("timestamp"), metadata=rest, toolCallId=call_id
        )


def _call(call: JsonObject) -> JsonObject:
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    return tool_call(call.get("id"), inner.get("name"), inner.get("arguments"))
