"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the single JSON documents of its older versions.

A message is written again whenever it grows (the last version counts), `$rewindTo` takes messages back, and `$set` changes
the header. So the file is read twice: first to find which line of each id counts, then for the messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.document import items, members
from sessiond.importers.draft import Draft, suggest_id
from sessiond.importers.jsontext import as_text
from sessiond.importers.lines import head_objects, objects
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.model.values import JsonObject

_ROLES = {"gemini": "assistant", "user": "user", "info": "system", "error": "system", "warning": "system"}
_ARRAYS = frozenset({"messages"})
_USED = frozenset({"id", "type", "timestamp", "content", "toolCalls", "thoughts"})


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
        about, last = _survey(path, open_)
        draft = Draft(self.name, path, str(about.get("sessionId") or os.path.splitext(os.path.basename(path))[0]))
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
            cwd=directories[0] if isinstance(directories, list) and directories else None,
            parent=parent,
            metadata={key: value for key, value in about.items() if key not in ("sessionId", "summary", "startTime")},
        )
        for entry in _entries(path, open_):
            if isinstance(entry, SkippedLine):
                yield entry
                continue
            line, record = entry
            if (
                isinstance(record.get("id"), str)
                and isinstance(record.get("type"), str)
                and last.get(record["id"], (line, 0))[0] == line
            ):
                rewound = record["id"] in last and last[record["id"]][1] == 1
                yield from _message(draft, line, record, rewound=rewound)
        yield from draft.end(updatedAt=about.get("lastUpdated"))


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


def _survey(path: str, open_: Opener) -> tuple[JsonObject, dict[str, tuple[int, int]]]:
    """The final header and, for each message id, the line that counts and whether it was rewound."""
    about: JsonObject = members(path, open_, _ARRAYS) if path.endswith(".json") else {}
    last: dict[str, tuple[int, int]] = {}
    for entry in _entries(path, open_):
        if isinstance(entry, SkippedLine):
            continue
        line, record = entry
        if isinstance(record.get("$set"), dict):
            about |= {key: value for key, value in record["$set"].items() if key != "messages"}
        elif isinstance(record.get("$rewindTo"), str):
            _rewind(last, record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            last.pop(record["id"], None)
            last[record["id"]] = (line, 0)
        elif "sessionId" in record:
            about |= {key: value for key, value in record.items() if key != "messages"}
    return about, last


def _rewind(last: dict[str, tuple[int, int]], target: str) -> None:
    """Mark everything from `target` on as taken back; it is kept."""
    reached = target not in last
    for message_id, (line, _) in list(last.items()):
        reached = reached or message_id == target
        if reached:
            last[message_id] = (line, 1)


def _message(draft: Draft, line: int, record: JsonObject, *, rewound: bool) -> Iterator[Event]:
    kind = record["type"]
    metadata = {key: value for key, value in record.items() if key not in _USED and value is not None}
    if kind not in ("user", "gemini"):
        metadata["type"] = kind
    if rewound:
        metadata["rewound"] = True
    if isinstance(record.get("model"), str):
        draft.model = record["model"]
    calls = [call for call in record.get("toolCalls") or [] if isinstance(call, dict)]
    fields: JsonObject = {"thinking": _thinking(record.get("thoughts"))}
    if calls:
        fields["toolCalls"] = [tool_call(c.get("id"), c.get("name"), c.get("args")) | _more(c) for c in calls]
    yield from draft.message(
        _ROLES.get(kind) or kind,
        _content(record.get("content")),
        line=line,
        id=record["id"],
        time=record.get("timestamp"),
        metadata=metadata,
        **fields,
    )
    for call in calls:
        if call.get("result") is not None:
            yield from _result(draft, line, record, call)


def _result(draft: Draft, line: int, record: JsonObject, call: JsonObject) -> Iterator[Event]:
    """Gemini keeps a result inside its call; here it becomes a message with role `tool`, as for other tools."""
    result_id = f"{record['id']}-{call.get('id')}"
    metadata = {key: call[key] for key in ("status", "resultDisplay", "name") if call.get(key) is not None}
    time = call.get("timestamp") or record.get("timestamp")
    yield from draft.message(
        "tool",
        _content(call["result"]),
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


def _content(value: Any) -> str | list[Any]:
    """A list of parts from Google's API: strings, `{text}`, `{functionResponse: {response: {output}}}`,
    `{inlineData}`, ..."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value] if value is not None else []
    blocks: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            blocks.append({"type": "text", "text": part})
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            blocks.append({"type": "text", **part})
        elif isinstance(part, dict) and isinstance(part.get("functionResponse"), dict):
            response = part["functionResponse"].get("response")
            output = response.get("output", response.get("error")) if isinstance(response, dict) else response
            blocks.append({"type": "text", "text": output if isinstance(output, str) else as_text(response)})
        else:
            blocks.append(part)
    return simple(blocks)
