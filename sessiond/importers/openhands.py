"""OpenHands: a folder per conversation, with `base_state.json` and one file per event in `events/`; before version 1 only
`events/0.json`, `1.json`, ... A downloaded trajectory is an array of the same events.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import beside, folder_name, rest_of, stem
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_STATE, _FIRST, _EVENTS = "base_state.json", "0.json", "events"
_NUMBER = re.compile(r"(?:event-)?(\d+)(?:-[0-9a-f-]+)?\.json")
_BASIC = ("id", "kind", "timestamp", "source")
_SILENT = frozenset({"ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent", "change_agent_state",
                     "agent_state_changed", "null", "recall", "system_state"})  # fmt: skip
_ROLES = {"agent": "assistant", "environment": "system"}


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
        given = state.get("id")
        own = os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(path))))
        named = own if os.path.basename(path) == _FIRST else stem(path)
        self._draft = SessionDraft(OpenHands.name, path, given if isinstance(given, str) and given else named)
        self._ignored: Counter[str] = Counter()

    def start(self) -> Event:
        state = self._state
        workspace, agent = state.get("workspace"), state.get("agent")
        llm = agent.get("llm") if isinstance(agent, dict) else None
        return self._draft.start(
            cwd=workspace.get("working_dir") if isinstance(workspace, dict) else None,
            model=llm.get("model") if isinstance(llm, dict) else None,
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
                yield from self._event(item.line, item.value)
            else:
                yield SkippedLine(file, item.line, "an event that is not an object")
        if single:
            yield from self._event(1, single)

    def _event(self, line: int, event: JsonObject) -> Iterator[Event]:
        kind = str(event.get("kind") or event.get("action") or event.get("observation"))
        if kind in _SILENT:
            self._ignored[kind] += 1
            return
        turn = _turn(event) if "kind" in event else _older_turn(event)
        if turn is None:
            turn = Turn("system", {"record": event})
        yield from turn.events(self._draft, line=line, id=event.get("id"), time=event.get("timestamp"))

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)


def _turn(event: JsonObject) -> Turn | None:
    """The message of an event of version 1; None if it is of an unknown kind."""
    kind, source = event["kind"], str(event.get("source"))
    turn = Turn(_ROLES.get(source, source))
    said: Any = None
    if kind == "MessageEvent" and isinstance(event.get("llm_message"), dict):
        message: JsonObject = event["llm_message"]
        turn = Turn(str(message.get("role") or turn.role), rest_of(event, *_BASIC, "llm_message"))
        turn.think(message.get("reasoning_content"))
        turn.take(message.get("thinking_blocks") or [])
        said = message.get("content")
    elif kind == "ActionEvent":
        call = event.get("tool_call")
        arguments = call.get("arguments") if isinstance(call, dict) else event.get("action")
        turn = Turn("assistant", rest_of(event, *_BASIC, "thought", "reasoning_content", "thinking_blocks", "tool_call",
                                         "action", "tool_name", "tool_call_id"))  # fmt: skip
        turn.think(event.get("reasoning_content"))
        turn.take(event.get("thinking_blocks") or [])
        turn.take(_plain(event.get("thought")))
        turn.call(event.get("tool_call_id"), event.get("tool_name"), arguments)
    elif "tool_call_id" in event and kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"):
        given = event.get("observation")
        seen: JsonObject = given if isinstance(given, dict) else {}
        shown = seen.get("content", event.get("error", event.get("rejection_reason")))
        turn.metadata = {
            **rest_of(seen, "kind", "content", "is_error"),
            **rest_of(event, *_BASIC, "observation", "tool_call_id"),
        }
        turn.result(
            event["tool_call_id"], _plain(shown), error=bool(seen.get("is_error")) or kind != "ObservationEvent"
        )
    elif kind == "SystemPromptEvent":
        turn, said = Turn("system", {"injected": True}), event.get("system_prompt")
    elif kind.startswith("Condensation") and event.get("summary"):
        turn, said = Turn("system", rest_of(event, *_BASIC, "summary")), event["summary"]
    else:
        return None
    turn.take(_plain(said))
    return turn


def _plain(content: Any) -> Any:
    """Blocks without the mark that the SDK puts on each of them."""
    if isinstance(content, list):
        return [_plain(one) for one in content]
    return (
        {key: value for key, value in content.items() if key != "cache_prompt"}
        if isinstance(content, dict)
        else content
    )


def _older_turn(event: JsonObject) -> Turn | None:
    """The message of an event before version 1; None if it is of an unknown kind."""
    given, known = event.get("args"), event.get("tool_call_metadata")
    args: JsonObject = given if isinstance(given, dict) else {}
    call: JsonObject = known if isinstance(known, dict) else {}
    action, source = event.get("action"), str(event.get("source"))
    turn = Turn(_ROLES.get(source, source), rest_of(event, *_BASIC, "action", "args", "content", "message",
                                                    "observation", "tool_call_metadata"))  # fmt: skip
    if action in ("message", "system"):
        turn.role = "system" if action == "system" else turn.role
        turn.say(args.get("content"))
    elif action:
        turn.say(args.get("thought"))
        turn.call(
            call.get("tool_call_id") or str(event.get("id")),
            call.get("function_name") or action,
            rest_of(args, "thought"),
        )
    elif "observation" in event:
        call_id = call.get("tool_call_id") or str(event.get("cause", ""))
        turn.result(call_id, event.get("content"), error=event.get("observation") == "error")
    else:
        return None
    return turn
