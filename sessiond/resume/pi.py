"""pi: a header and a tree of entries, one line each."""

from __future__ import annotations

import os
import re
import uuid
from typing import Any

import msgspec

from sessiond.exporters.conversation import ExportedCall, ExportedTurn, result_of
from sessiond.importers.came_from import PARENT
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.source_file import mapped
from sessiond.limits import MIB
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.target import (
    PICTURES_IN_RESULTS,
    FileTarget,
    SessionCopy,
    Written,
    lines,
    milliseconds,
    timed_uuid,
)

_VERSION = 3
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _NO_COST}


class PiTarget(FileTarget):
    name = program = importer = "pi"
    holds = PICTURES_IN_RESULTS

    def command(self, written: Written) -> list[str]:
        return ["pi", "--session", written.id]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        session_id, now = timed_uuid(copy.moment), timestamp(copy.moment)
        base = self.base(copy.cwd, "PI_CODING_AGENT_DIR", ".pi", "agent")
        folder = "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", copy.cwd)) + "--"
        name = f"{re.sub(r'[:.]', '-', now)}_{session_id}.jsonl"
        header = {
            "type": "session", "version": _VERSION, "id": session_id, "timestamp": now, "cwd": copy.cwd, PARENT: copy.parent,
        }  # fmt: skip
        entries = _Entries(_own_model(base) or {"provider": "unknown", "model": copy.model or "unknown"})
        if copy.name:
            entries.add("session_info", now, name=copy.name)
        for turn in copy.turns:
            entries.turn(turn)
        return Written(session_id, os.path.join(base, "sessions", folder, name)), lines([header, *entries.all])


def _own_model(base: str) -> JsonObject | None:
    """The model that pi starts with. It goes on with the model of the last answer if it knows that."""
    try:
        with open(os.path.join(base, "settings.json"), "rb") as file:
            found = mapped(decode(file.read(MIB))[0])
    except (OSError, NotJson):
        return None
    provider, model = found.get("defaultProvider"), found.get("defaultModel")
    known = isinstance(provider, str) and isinstance(model, str)
    return {"provider": provider, "model": model} if known else None


class _Entries:
    def __init__(self, model: JsonObject) -> None:
        self.all: list[JsonObject] = []
        self._model = {"api": "openai-completions", **model}
        self._last: str | None = None
        self._ids: set[str] = set()

    def add(self, kind: str, time: str, **rest: object) -> None:
        own = uuid.uuid4().hex[:8]
        while own in self._ids:
            own = uuid.uuid4().hex[:8]
        self._ids.add(own)
        self.all.append({"type": kind, "id": own, "parentId": self._last, "timestamp": time, **rest})
        self._last = own

    def turn(self, turn: ExportedTurn) -> None:
        content = [_content(block) for block in turn.blocks]
        if turn.role == "user":
            self._message(turn, {"role": "user", "content": content})
            return
        calls = [{"type": "toolCall", "id": one.id, "name": one.name, "arguments": one.arguments} for one in turn.calls]
        about = {**self._model, "usage": _NO_USAGE, "stopReason": "toolUse" if calls else "stop"}
        self._message(turn, {"role": "assistant", "content": [*content, *calls], **about})
        for call in turn.calls:
            self._message(turn, _result(call))

    def _message(self, turn: ExportedTurn, message: JsonObject) -> None:
        self.add("message", turn.timestamp, message={**message, "timestamp": milliseconds(turn.timestamp)})


def _result(call: ExportedCall) -> JsonObject:
    content = [_content(block) for block in result_of(call)]
    return {
        "role": "toolResult", "toolCallId": call.id, "toolName": call.name, "content": content, "isError": call.failed,
    }  # fmt: skip


def _content(block: dict[str, Any]) -> JsonObject:
    if block["type"] == "text":
        return msgspec.to_builtins(block)  # type: ignore[no-any-return]
    source = block["source"]
    return {"type": "image", "data": source.get("data", ""), "mimeType": source.get("media_type", "image/png")}
