"""Reads acpx's journal of the Agent Client Protocol: prompts, chunks of answers and thoughts, and tool calls, which are sent
again whenever something about them is new. It knows no times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Ignored
from sessiond.importers.source_file import listed, mapped, rest_of, word, written_at
from sessiond.importers.turn import Turn
from sessiond.importers.usage import of_camel
from sessiond.model.values import JsonObject, WireObject

_SILENT = frozenset(
    {
        "available_commands_update", "config_option_update", "current_mode_update", "plan", "session_info_update",
        "usage_update",
    }
)  # fmt: skip
"""Updates in which nobody says anything."""


class AcpxJournal:
    def __init__(self, tool: str, path: str, source_id: str) -> None:
        self._path = path
        self._draft = SessionDraft(tool, path, source_id, fallback_time=written_at(path))
        self._ignored: Counter[str] = Counter()
        self._parts: list[WireObject] = []
        """Of the answer: chunks of one kind are one part, and so are all reports of one call."""
        self._calls: dict[str, WireObject] = {}
        self._line = 0
        self._cwd: str | None = None

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        params, result = mapped(record.get("params")), mapped(record.get("result"))
        method = record.get("method")
        if method == "session/prompt":
            yield from self._answer({})
            yield from self._prompt(line, record, listed(params.get("prompt")))
        elif method == "session/update":
            self._update(line, mapped(params.get("update")))
        elif "stopReason" in result and method is None:
            metadata = {"stopReason": result["stopReason"], **of_camel(mapped(result.get("usage")))}
            yield from self._answer(metadata)
        else:
            self._cwd = word(params.get("cwd")) or self._cwd
            self._ignored[str(method or record.get("type") or "response")] += 1

    def _prompt(self, line: int, record: JsonObject, blocks: list[object]) -> Iterator[Event]:
        if not self._draft.started:
            yield self._draft.start(cwd=self._cwd)
        turn = Turn("user")
        turn.take(blocks)
        yield from turn.events(self._draft, line=line)

    def _update(self, line: int, update: JsonObject) -> None:
        kind = word(update.get("sessionUpdate"))
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            last = self._parts[-1] if self._parts else {}
            same = (last.get("kind"), last.get("id")) == (kind, update.get("messageId"))
            if not same:
                self._parts.append({"kind": kind, "id": update.get("messageId"), "blocks": []})
            self._parts[-1]["blocks"].append(update.get("content"))
        elif kind in ("tool_call", "tool_call_update"):
            call_id = str(update.get("toolCallId"))
            if call_id not in self._calls:
                self._calls[call_id] = {"kind": "call", "id": call_id}
                self._parts.append(self._calls[call_id])
            self._calls[call_id] |= rest_of(update, "sessionUpdate", "toolCallId", "kind")
        elif kind in _SILENT:
            self._ignored[kind] += 1
        elif kind != "user_message_chunk":  # the prompt again
            self._draft.unknown(kind)
        self._line = line

    def _answer(self, metadata: JsonObject) -> Iterator[Event]:
        parts, self._parts, self._calls = self._parts, [], {}
        if not parts:
            return
        if not self._draft.started:
            yield self._draft.start(cwd=self._cwd)
        turn = Turn("assistant", metadata)
        for part in parts:
            if part["kind"] == "call":
                _take_call(turn, part)
            elif part["kind"] == "agent_thought_chunk":
                turn.think(_joined(part["blocks"]))
            else:
                turn.say(_joined(part["blocks"]))
                for block in part["blocks"]:
                    if mapped(block).get("type") != "text":
                        turn.add(block)
        yield from turn.events(self._draft, line=self._line)

    def end(self) -> Iterator[Event]:
        yield from self._answer({})
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)


def _take_call(turn: Turn, call: JsonObject) -> None:
    rest = rest_of(call, "kind", "id", "title", "rawInput", "rawOutput", "content", "status")
    turn.call(call["id"], call.get("title"), call.get("rawInput"), **rest)
    shown = [mapped(mapped(one).get("content")).get("text") for one in listed(call.get("content"))]
    texts = [text for text in shown if isinstance(text, str)]
    if call.get("status") in ("completed", "failed"):
        content = "\n".join(texts) if texts else call.get("rawOutput")
        turn.result(call["id"], "" if content is None else content, error=call["status"] == "failed")


def _joined(blocks: list[object]) -> str:
    return "".join(str(mapped(block).get("text") or "") for block in blocks)
