"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the single JSON documents of its older versions.

A message is written again whenever it grows (the last version counts), `$rewindTo` takes messages back, and `$set` changes
the header. So the file is read twice: first to find which line of each id counts, then for the messages.

`$set.messages` is a checkpoint of all that is sent to the model. Most of it is there as records, too; the rest is the tool's own:
its first words about the machine, and the summary of a compression. A result is kept inside its call, and written once more as a
message of the user's, which is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sessiond.importers.blocks import tool_call
from sessiond.importers.document import items, members
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.google_parts import content
from sessiond.importers.lines import head_objects, objects
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import mapped
from sessiond.importers.usage import apart, usage
from sessiond.model.token_usage import count
from sessiond.model.values import JsonObject

_ROLES = {"gemini": "assistant", "user": "user", "info": "system", "error": "system", "warning": "system"}
_ARRAYS = frozenset({"messages"})
_USED = frozenset({"id", "type", "timestamp", "content", "toolCalls", "thoughts", "tokens"})


class GeminiCli:
    name = "gemini-cli"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            return 90 if b'"projectHash"' in head and b'"sessionId"' in head else 0
        if not path.endswith(".jsonl"):
            return 0
        return 90 if any("projectHash" in record and "sessionId" in record for record in head_objects(head)[:5]) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        survey = _Survey(path, open_)
        about = survey.about
        draft = SessionDraft(
            self.name, path, str(about.get("sessionId") or os.path.splitext(os.path.basename(path))[0])
        )
        folder = os.path.basename(os.path.dirname(path))
        parent = (
            {"sessionId": suggest_id(self.name, folder), "seq": None}
            if about.get("kind") == "subagent" and folder != "chats"
            else None
        )
        directories = about.get("directories")
        yield draft.start(
            createdAt=about.get("startTime"),
            name=about.get("summary"),
            cwd=directories[0] if isinstance(directories, list) and directories else _project_root(path),
            parent=parent,
            metadata={
                **{key: value for key, value in about.items() if key not in ("sessionId", "summary", "startTime")},
                **({"sidechain": True} if parent else {}),
            },
        )
        for entry in _entries(path, open_):
            if isinstance(entry, SkippedLine):
                yield entry
                continue
            line, record = entry
            if (unknown := _unknown_kind(record)) is not None:
                draft.unknown(unknown)
            for message, marks in survey.counted(line, record):
                yield from _message(draft, line, message, marks)
        yield from draft.end(updatedAt=about.get("lastUpdated"))


def _project_root(path: str) -> str | None:
    """The folder that the sessions of a `chats` folder belong to."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root"), encoding="utf-8") as file:
            return file.read(4096).strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _entries(path: str, open_: Opener) -> Iterator[tuple[int, JsonObject] | SkippedLine]:
    if path.endswith(".jsonl"):
        yield from objects(path, open_)
        return
    number = 0
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element and isinstance(item.value, dict):
            # Elements may share a line; their order tells them apart.
            number += 1
            yield number, item.value


class _Survey:
    """What the whole file says: the final header, and for each message id the line that counts and whether it was rewound."""

    def __init__(self, path: str, open_: Opener) -> None:
        self.about: JsonObject = members(path, open_, _ARRAYS) if path.endswith(".json") else {}
        self._last: dict[str, tuple[int, int]] = {}
        self._answered: set[str] = set()
        """Calls that hold their result."""
        self._told: set[str] = set()
        """Messages of checkpoints that were given on."""
        for entry in _entries(path, open_):
            if not isinstance(entry, SkippedLine):
                self._take(*entry)

    def _take(self, line: int, record: JsonObject) -> None:
        if isinstance(record.get("$set"), dict):
            self.about |= {key: value for key, value in record["$set"].items() if key != "messages"}
        elif isinstance(record.get("$rewindTo"), str):
            _rewind(self._last, record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self._last.pop(record["id"], None)
            self._last[record["id"]] = (line, 0)
            self._answered |= {str(call.get("id")) for call in _calls(record) if call.get("result") is not None}
        elif "sessionId" in record:  # once more whenever the session is resumed
            began = self.about.get("startTime") or record.get("startTime")
            self.about |= {key: value for key, value in record.items() if key != "messages"} | {"startTime": began}

    def counted(self, line: int, record: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
        """The messages of a line that count, each with what is to be known of it."""
        checkpoint = record["$set"].get("messages") if isinstance(record.get("$set"), dict) else None
        for message in checkpoint if isinstance(checkpoint, list) else []:
            known = not _is_message(message) or message["id"] in self._last or message["id"] in self._told
            if not known and not self._repeats_results(message):
                self._told.add(message["id"])
                yield message, {"checkpoint": True, **({"injected": True} if message["type"] == "user" else {})}
        if _is_message(record):
            counts, rewound = self._last.get(record["id"], (line, 0))
            if counts == line and not self._repeats_results(record):
                yield record, {"rewound": True} if rewound else {}

    def _repeats_results(self, record: JsonObject) -> bool:
        """Whether it says nothing but results that their calls hold."""
        parts = record.get("content")
        if not isinstance(parts, list) or not parts:
            return False
        responses = [part.get("functionResponse") if isinstance(part, dict) else None for part in parts]
        return all(isinstance(one, dict) and str(one.get("id")) in self._answered for one in responses)


def _unknown_kind(record: JsonObject) -> str | None:
    """An operator, or a type of message, that later versions may have."""
    operators = [key for key in record if key.startswith("$") and key not in ("$set", "$rewindTo")]
    if operators:
        return operators[0]
    if _is_message(record):
        return None if record["type"] in _ROLES else str(record["type"])
    known = "sessionId" in record or "$set" in record or "$rewindTo" in record
    return None if known else str(record.get("type", "without a type"))


def _is_message(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("id"), str) and isinstance(record.get("type"), str)


def _calls(record: JsonObject) -> list[JsonObject]:
    calls = record.get("toolCalls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _rewind(last: dict[str, tuple[int, int]], target: str) -> None:
    """Mark everything from `target` on as taken back; it is kept."""
    reached = target not in last
    for message_id, (line, _) in list(last.items()):
        reached = reached or message_id == target
        if reached:
            last[message_id] = (line, 1)


def _message(draft: SessionDraft, line: int, record: JsonObject, marks: JsonObject) -> Iterator[Event]:
    kind = record["type"]
    metadata = {key: value for key, value in record.items() if key not in _USED and value is not None}
    if kind not in ("user", "gemini"):
        metadata["type"] = kind
    metadata |= _tokens(record) | marks
    if isinstance(record.get("model"), str):
        draft.model = record["model"]
    calls = _calls(record)
    fields: JsonObject = {"thinking": _thinking(record.get("thoughts"))}
    if calls:
        fields["toolCalls"] = [tool_call(c.get("id"), c.get("name"), c.get("args")) | _more(c) for c in calls]
    yield from draft.message(
        _ROLES.get(kind) or kind,
        content(record.get("content")),
        line=line,
        id=record["id"],
        time=record.get("timestamp"),
        metadata=metadata,
        **fields,
    )
    for call in calls:
        if call.get("result") is not None:
            yield from _result(draft, line, record, call)


def _tokens(record: JsonObject) -> JsonObject:
    given = mapped(record.get("tokens"))
    thoughts = count(given.get("thoughts"))
    return usage(
        apart(given.get("input"), given.get("cached")) + count(given.get("tool")),
        count(given.get("output")) + thoughts,
        cache_read=given.get("cached"),
        reasoning=thoughts,
        model=record.get("model"),
    )


def _result(draft: SessionDraft, line: int, record: JsonObject, call: JsonObject) -> Iterator[Event]:
    """Gemini keeps a result inside its call; here it becomes a message with role `tool`, as for other tools."""
    result_id = f"{record['id']}-{call.get('id')}"
    metadata = {key: call[key] for key in ("status", "resultDisplay", "name") if call.get(key) is not None}
    time = call.get("timestamp") or record.get("timestamp")
    yield from draft.message(
        "tool",
        content(call["result"]),
        line=line,
        id=result_id,
        time=time,
        metadata=metadata,
        toolCallId=str(call.get("id") or ""),
    )


def _more(call: JsonObject) -> JsonObject:
    return {
        key: value
        for key, value in call.items()
        if key not in ("id", "name", "args", "result", "resultDisplay") and value is not None
    }


def _thinking(thoughts: Any) -> str | None:
    if not isinstance(thoughts, list) or not thoughts:
        return None
    said = [[t.get("subject"), t.get("description")] for t in thoughts if isinstance(t, dict)]
    return "\n\n".join(": ".join(str(part) for part in pair if part) for pair in said)
