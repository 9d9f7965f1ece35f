"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`, one event per line; older versions wrote `<id>.jsonl`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from sessiond.importers.draft import SessionDraft
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.lines import beheaded, head_objects, read_with
from sessiond.importers.record import Event, Ignored, Opener
from sessiond.importers.source_file import folder_name, listed, mapped, rest_of, stem, word
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.importers.usage import of_camel
from sessiond.model.values import JsonObject

_FILE = "events.jsonl"
_START = "session.start"
_COUNTED = (
    "abort", "assistant.intent", "assistant.message_", "assistant.reasoning", "assistant.streaming", "assistant.turn_",
    "assistant.usage", "auto_mode_switch.", "capabilities.", "command.", "commands.", "elicitation.", "exit_plan_mode.",
    "external_tool.", "hook.", "mcp.", "model.call_failure", "pending_messages.", "permission.", "sampling.",
    "session.background_", "session.context_changed", "session.compaction_start", "session.custom_agents_",
    "session.extensions_", "session.idle", "session.info", "session.mcp_", "session.mode_changed", "session.model_change",
    "session.plan_", "session.remote_", "session.resume", "session.shutdown", "session.skills_", "session.snapshot_",
    "session.task_complete", "session.title_changed", "session.tools_", "session.truncation", "session.usage_",
    "session.warning", "session.workspace_", "subagent.", "tool.execution_p", "tool.execution_start",
    "tool.user_requested", "user_input.",
)  # fmt: skip
"""Beginnings of the types of events in which neither a person nor a model says anything that no other event has."""
_TEXTS = {
    "session.compaction_complete": "summaryContent",
    "session.error": "message",
    "session.handoff": "summary",
    "skill.invoked": "content",
    "system.notification": "content",
}
"""Events that become a system message, and the field with its text."""


class CopilotCli(Tool):
    name = "copilot-cli"
    verified = "real files"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        begins = path.endswith(".jsonl") and b'"session.start"' in head
        if begins and any(record.get("type") == _START and "data" in record for record in head_objects(head)):
            return 95
        # The first event may be missing or damaged: the folder's name says which session it is.
        may_be = os.path.basename(path) == _FILE and b'"user.message"' in head
        return 80 if may_be and any(map(_is_prompt, head_objects(head))) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(_Reader(path, _named(path, open_)), path, open_)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(env.get("COPILOT_HOME") or os.path.join(home, ".copilot"), "session-state")]


def _is_prompt(record: JsonObject) -> bool:
    return record.get("type") == "user.message" and isinstance(record.get("data"), dict) and "parentId" in record


def _named(path: str, open_: Opener) -> str | None:
    """The session's name in `workspace.yaml` next to it: a plain or a quoted scalar."""
    listing = os.path.join(os.path.dirname(path), "workspace.yaml")
    if not os.path.isfile(listing):
        return None
    with open_(listing) as file:
        for line in file.read(1 << 16).splitlines():
            key, _, value = line.partition(b":")
            if key == b"name":
                try:
                    found = decode(value.strip())[0]
                except NotJson:
                    found = value.decode("utf-8", "replace").strip()
                return found if isinstance(found, str) else None
    return None


class _Reader:
    def __init__(self, path: str, name: str | None) -> None:
        self._path = path
        self._name = name
        named = folder_name(path) if os.path.basename(path) == _FILE else stem(path)
        self._draft = SessionDraft(CopilotCli.name, path, named)
        self._usage: JsonObject = {}
        """What the last request to the model cost; the answer follows it."""
        self._ignored: Counter[str] = Counter()

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind, given = record.get("type"), record.get("data")
        data = mapped(given)
        if not self._draft.started:
            if kind != _START:
                yield beheaded(self._path, line)
            yield self._start(data if kind == _START else {}, record.get("timestamp"))
        if kind == _START:
            return
        turn = self._turn(str(kind), data)
        if turn is not None:
            if record.get("agentId") or data.get("parentToolCallId"):
                turn.metadata["sidechain"] = True
            yield from turn.events(self._draft, line=line, id=record.get("id"), time=record.get("timestamp"))
        elif isinstance(kind, str) and kind.startswith(_COUNTED):
            self._ignored[kind] += 1
            self._learn(kind, data)
        else:
            self._draft.keep(record)

    def _start(self, data: JsonObject, time: object) -> Event:
        context = mapped(data.get("context"))
        return self._draft.start(
            createdAt=data.get("startTime") or time,
            cwd=context.get("cwd"),
            model=data.get("selectedModel"),
            metadata={**rest_of(data, "sessionId", "startTime", "context", "selectedModel"), **rest_of(context, "cwd")},
        )

    def _learn(self, kind: str, data: JsonObject) -> None:
        if kind == "session.model_change" and isinstance(new_model := data.get("newModel"), str):
            self._draft.model = new_model
        if kind == "session.usage_record":
            self._usage = mapped(data.get("usage"))
        if kind == "session.title_changed" and isinstance(title := data.get("title"), str):
            self._name = title

    def _turn(self, kind: str, data: JsonObject) -> Turn | None:
        """The event as a message; None if nobody says anything in it."""
        if kind == "user.message":
            turn = Turn("user", rest_of(data, "content"))
            if data.get("source") not in (None, "", "user"):
                turn.metadata["injected"] = True
            turn.say(data.get("content"))
        elif kind == "assistant.message":
            turn = Turn("assistant", rest_of(data, "content", "toolRequests", "reasoningText"))
            if self._usage and self._usage.get("apiCallId") == data.get("apiCallId"):
                turn.metadata |= {"usage": self._usage} | of_camel(self._usage, request=data.get("apiCallId"))
                self._usage = {}
            self._draft.model = word(data.get("model")) or self._draft.model
            turn.think(data.get("reasoningText"))
            turn.say(data.get("content"))
            for call in listed(data.get("toolRequests")):
                if isinstance(call, dict):
                    rest = rest_of(call, "toolCallId", "name", "arguments", "type")
                    turn.call(call.get("toolCallId"), call.get("name"), call.get("arguments"), **rest)
        elif kind == "tool.execution_complete":
            turn = _result(data)
        elif kind == "system.message":
            turn = Turn(str(data.get("role") or "system"), {**rest_of(data, "content", "role"), "injected": True})
            turn.say(data.get("content"))
        elif kind in _TEXTS and data.get(_TEXTS[kind]):
            turn = Turn("system", {"event": kind, "injected": True, **rest_of(data, _TEXTS[kind])})
            turn.say(data[_TEXTS[kind]])
        else:
            return None
        return turn

    def end(self) -> Iterator[Event]:
        yield from self._draft.end(name=self._name)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)


def _result(data: JsonObject) -> Turn:
    turn = Turn("tool", rest_of(data, "toolCallId", "result", "error", "success"))
    result, error = data.get("result"), data.get("error")
    shown = (
        result.get("content") if isinstance(result, dict) else error.get("message") if isinstance(error, dict) else ""
    )
    if isinstance(result, dict) and (more := rest_of(result, "content")) and more != {"detailedContent": shown}:
        turn.metadata["toolResult"] = more
    turn.result(data.get("toolCallId"), shown, error=data.get("success") is False)
    return turn
