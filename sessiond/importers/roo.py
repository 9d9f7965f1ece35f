"""Roo Code, and Kilo Code before version 7 (see `kilo_database`): `tasks/<id>/api_conversation_history.json`.

It is an array of Anthropic's messages, or since Roo's version 2 `{version, messages}` with those of the AI SDK.
`history_item.json` next to it has the task's first words, folder and cost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from sessiond.importers.database import MAGIC, guarded
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.kilo_database import read_rows
from sessiond.importers.record import Event, Opener, RowsRead, SkippedLine
from sessiond.importers.source_file import beside, folder_name, listed, parent_of, read_records, rest_of, stem, word
from sessiond.importers.tool import Tool, in_config, in_editors
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_FILE = "api_conversation_history.json"
_DATABASE = "kilo.db"
_MODE = b"<slug>"
"""Only this family describes its mode with these tags, in the details that it adds to each prompt."""
_WRAPPED = re.compile(r"\s*<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_DETAILS = "<environment_details>"


class RooCode(Tool):
    name = "roo"
    folders = ("rooveterinaryinc.roo-cline", "rooveterinaryinc.roo-code")

    def recognise(self, path: str, head: bytes) -> int:
        if os.path.basename(path) != _FILE:
            return 0
        if any(f"{folder}{os.sep}" in path.lower() for folder in self.folders):
            return 97
        is_other = "saoudrizwan.claude-dev" in path or self.name != RooCode.name
        return 93 if _MODE in head and not is_other else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        item = beside(path, "history_item.json", open_)
        yield from read_records(lambda about: _Reader(self.name, path, {**about, **item}), path, open_, "messages")

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [path for folder in self.folders for path in in_editors(home, env, "globalStorage", folder, "tasks")]


class KiloCode(RooCode):
    name = "kilo"
    folders = ("kilocode.kilo-code", f".kilocode{os.sep}cli")

    def recognise(self, path: str, head: bytes) -> int:
        if os.path.basename(path) == _DATABASE:
            return 95 if head.startswith(MAGIC) else 60
        return super().recognise(path, head)

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if os.path.basename(path) == _DATABASE:
            yield from guarded(path, open_, lambda database: read_rows(self.name, database, path))
        else:
            yield from super().read(path, open_)

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        return guarded(path, open_, lambda one: read_rows(self.name, one, path, before, only_changed=True))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        own = os.path.join(home, ".kilocode", "cli", "global", "tasks")
        return [
            *in_config(home, env, "kilo", _DATABASE),
            own,
            *in_editors(home, env, "globalStorage", self.folders[0], "tasks"),
        ]


class _Reader:
    def __init__(self, tool: str, path: str, item: JsonObject) -> None:
        self._item = item
        source_id = word(item.get("id")) or folder_name(path)
        self._draft = SessionDraft(tool, path, source_id or stem(path))

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        role = record.get("role", "assistant" if record.get("type") == "reasoning" else None)
        if not isinstance(role, str):
            yield SkippedLine(self._draft.path, line, "not a message: it needs a role")
            return
        if not self._draft.started:
            yield self._start(record)
        turn = Turn(role, rest_of(record, "role", "content", "ts", "id", "reasoning_content", "text"))
        turn.think(record.get("reasoning_content"))
        if record.get("type") == "reasoning":
            turn.think(record.get("text") or _summary(record.get("summary")))
        details = _take(turn, record.get("content"))
        if details and turn.is_empty:
            turn.metadata["injected"] = True
            turn.say(details)
        elif details:
            turn.metadata["environmentDetails"] = details
        if record.get("isSummary") or record.get("isTruncationMarker"):
            turn.metadata["injected"] = True
        yield from turn.events(self._draft, line=line, id=record.get("id"), time=record.get("ts"))

    def _start(self, first: JsonObject) -> Event:
        item = self._item
        return self._draft.start(
            name=item.get("task"),
            cwd=item.get("workspace"),
            createdAt=moment(first.get("ts")) or moment(item.get("ts")),
            parent=parent_of(self._draft.tool, item.get("parentTaskId")),
            metadata=rest_of(item, "id", "task", "workspace", "version"),
        )

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()


def _take(turn: Turn, content: object) -> str:
    """Put the content in, without the tags around what a person wrote. Returns the details that the tool added to it."""
    details: list[str] = []
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
        if turn.role != "user" or not isinstance(text, str):
            turn.take([block])
        elif text.lstrip().startswith(_DETAILS):
            details.append(text)
        else:
            wrapped = _WRAPPED.fullmatch(text)
            turn.say(wrapped[2] if wrapped else text)
    return "\n\n".join(details)


def _summary(parts: object) -> str:
    """The texts of a reasoning record's summary."""
    found = listed(parts)
    return "\n\n".join(part["text"] for part in found if isinstance(part, dict) and isinstance(part.get("text"), str))
