"""OpenHands: a folder per conversation, with `base_state.json` and one file per event in `events/`; before version 1 only
`events/0.json`, `1.json`, ... A downloaded trajectory is an array of the same events.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from sessiond.importers.alone import alone
from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft
from sessiond.importers.openhands_events import turn_of
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import beside, folder_name, mapped, rest_of, stem, word
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_STATE, _FIRST, _EVENTS = "base_state.json", "0.json", "events"
_NUMBER = re.compile(r"(?:event-)?(\d+)(?:-[0-9a-f-]+)?\.json")
_SILENT = frozenset({"ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent", "change_agent_state",
                     "agent_state_changed", "null", "recall", "system_state"})  # fmt: skip


class OpenHands(Tool):
    name = "openhands"
    verified = "real files"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        name = os.path.basename(path)
        if name == _STATE:
            return 90 if b'"agent"' in head and b'"workspace"' in head else 0
        if not name.endswith(".json") or b'"source"' not in head or b'"timestamp"' not in head:
            return 0
        if name == _FIRST and folder_name(path) == _EVENTS:
            return 85
        known = (b'"observation"', b'"action"') if b'"kind"' not in head else (b'Event"',)
        return 75 if head.lstrip().startswith(b"[") and any(word in head for word in known) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        name = os.path.basename(path)
        state = beside(path, name, open_) if name == _STATE else {}
        reader = _Reader(path, state)
        yield reader.start()
        if name == _STATE:
            files = _event_files(os.path.join(os.path.dirname(path), _EVENTS))
        else:
            files = _event_files(os.path.dirname(path)) if name == _FIRST else [path]
        for file in files:
            yield from reader.file(file, open_)
        yield from reader.end()

    def is_part(self, path: str) -> bool:
        return folder_name(path) == _EVENTS and _NUMBER.fullmatch(os.path.basename(path)) is not None

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(home, ".openhands", name) for name in ("conversations", "sessions")]


def _event_files(folder: str) -> list[str]:
    """The files of a folder with one event each, in their order."""
    found = [(int(match[1]), name) for name in os.listdir(folder) if (match := _NUMBER.fullmatch(name))]
    return [os.path.join(folder, name) for _, name in sorted(found)]


class _Reader:
    def __init__(self, path: str, state: JsonObject) -> None:
        self._path = path
        self._state = state
        own = os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(path))))
        named = own if os.path.basename(path) == _FIRST else stem(path)
        self._draft = SessionDraft(OpenHands.name, path, word(state.get("id")) or named)
        self._ignored: Counter[str] = Counter()

    def start(self) -> Event:
        state = self._state
        workspace, agent = state.get("workspace"), state.get("agent")
        return self._draft.start(
            cwd=mapped(workspace).get("working_dir"),
            model=mapped(mapped(agent).get("llm")).get("model"),
            metadata=rest_of(
                state, "id", "agent", "workspace", "persistence_dir", "secret_registry", "activated_skills"
            ),
        )

    def file(self, file: str, open_: Opener) -> Iterator[Event]:
        single: JsonObject = {}
        for item in items(file, open_, frozenset()):
            if isinstance(item, SkippedLine):
                yield item
            elif not item.element:
                single[item.member] = item.value
            elif isinstance(item.value, dict):
                yield from alone(file, "this event", self._event(item.line, item.value), item.line)
            else:
                yield SkippedLine(file, item.line, "an event that is not an object")
        if single:
            yield from alone(file, "this event", self._event(1, single))

    def _event(self, line: int, event: JsonObject) -> Iterator[Event]:
        kind = str(event.get("kind") or event.get("action") or event.get("observation"))
        if kind in _SILENT:
            self._ignored[kind] += 1
            return
        turn = turn_of(event)
        if turn is None:
            turn = Turn("system", {"record": event})
        yield from turn.events(self._draft, line=line, id=event.get("id"), time=event.get("timestamp"))

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)
