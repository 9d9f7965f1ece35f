"""Kiro's third layout: `sess_<id>/messages.jsonl`, one event per line, with `session.json` next to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.record import Event, Ignored
from sessiond.importers.source_file import folder_name, mapped, rest_of, word
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

KINDS = frozenset({"user", "assistant", "tool_call", "tool_result", "usage_summary"})
_SAY = "Say"
_ABOUT = ("id", "title", "modelId", "createdAt", "lastModifiedAt", "workspacePath", "cwd")


class EventReader:
    """Turns events into messages. `about`: the content of `session.json`."""

    def __init__(self, tool: str, path: str, about: JsonObject) -> None:
        self._about = about
        source_id = word(about.get("id")) or folder_name(path)
        self._draft = SessionDraft(tool, path, source_id, fallback_time=moment(about.get("createdAt")))
        self._ignored: Counter[str] = Counter()

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start(record)
        payload = mapped(record.get("payload"))
        turn = _turn(payload)
        if turn is not None:
            given = record.get("id") or payload.get("id") or payload.get("messageId")
            yield from turn.events(self._draft, line=line, id=given, time=record.get("timestamp"))
        elif payload.get("type") == "usage_summary":
            self._ignored["usage_summary"] += 1
        else:
            self._draft.keep(record)

    def _start(self, first: JsonObject) -> Event:
        about = self._about
        return self._draft.start(
            name=about.get("title"),
            createdAt=about.get("createdAt") or first.get("timestamp"),
            updatedAt=about.get("lastModifiedAt"),
            cwd=about.get("workspacePath") or about.get("cwd"),
            model=about.get("modelId"),
            metadata=rest_of(about, *_ABOUT),
        )

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._draft.path, kind, count)


def _turn(payload: JsonObject) -> Turn | None:
    """The message of an event; None if nobody says anything in it."""
    kind, call_id = payload.get("type"), payload.get("toolCallId")
    if kind in ("user", "assistant"):
        turn = Turn(str(kind), rest_of(payload, "type", "content", "operationType", "id", "messageId"))
        operation = payload.get("operationType")
        if kind == "assistant" and operation not in (_SAY, None):
            turn.metadata["operationType"] = operation
        turn.take(payload.get("content"))
    elif kind == "tool_call":
        turn = Turn("assistant", rest_of(payload, "type", "toolCallId", "toolName", "args", "id"))
        turn.call(call_id, payload.get("toolName"), payload.get("args"))
    elif kind == "tool_result":
        turn = Turn("tool", rest_of(payload, "type", "toolCallId", "content", "success", "id"))
        turn.result(call_id, payload.get("content"), error=payload.get("success") is False)
    else:
        return None
    return turn
