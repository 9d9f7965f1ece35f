"""Claude Code: a tree of records, one line each, in the folder that it has for the working directory."""

from __future__ import annotations

import os
import uuid
from typing import Any

from sessiond.exporters.conversation import ExportedTurn, result_of
from sessiond.importers.came_from import PARENT
from sessiond.model.values import JsonObject
from sessiond.resume.target import (
    PICTURES_IN_RESULTS,
    FileTarget,
    SessionCopy,
    Written,
    dashed,
    javascript_units,
    lines,
)

_VERSION = "2.1.0"
_MOST_CHARS = 200
_NOT_ITS_OWN = "<synthetic>"
"""What Claude Code calls the model of its own made-up answers; it has no price."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClaudeCodeTarget(FileTarget):
    name = program = "claude"
    importer = "claude-code"
    holds = PICTURES_IN_RESULTS
    urls = True

    def command(self, written: Written) -> list[str]:
        return ["claude", "--resume", written.id]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        session_id = str(uuid.uuid4())
        base = self.base(copy.cwd, "CLAUDE_CONFIG_DIR", ".claude")
        path = os.path.join(base, "projects", folder_name(copy.cwd), session_id + ".jsonl")
        records = _Records(copy, session_id)
        for turn in copy.turns:
            records.turn(turn)
        if copy.name:
            records.all.append({"type": "custom-title", "customTitle": copy.name, "sessionId": session_id})
        records.all[0][PARENT] = copy.parent
        return Written(session_id, path), lines(records.all)


def folder_name(cwd: str) -> str:
    """A long path is cut, and a hash of it follows."""
    name = dashed(cwd)
    if len(name) <= _MOST_CHARS:
        return name
    value = 0
    units = javascript_units(cwd).encode("utf-16-le") if cwd.isascii() else cwd.encode("utf-16-le", "surrogatepass")
    for place in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[place : place + 2], "little")) & 0xFFFFFFFF
    number = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return f"{name[:_MOST_CHARS]}-{digits or '0'}"


class _Records:
    def __init__(self, copy: SessionCopy, session_id: str) -> None:
        self.all: list[JsonObject] = []
        own = copy.model is not None and copy.model.startswith("claude")
        self._model = copy.model if own else _NOT_ITS_OWN
        self._last: str | None = None
        self._common = {
            "isSidechain": False, "userType": "external", "entrypoint": "cli", "cwd": copy.cwd, "sessionId": session_id,
            "version": _VERSION, "gitBranch": "",
        }  # fmt: skip

    def turn(self, turn: ExportedTurn) -> None:
        if turn.role == "user":
            self._add("user", turn, {"role": "user", "content": turn.blocks})
            return
        uses = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in turn.calls]
        usage = {"input_tokens": 0, "output_tokens": 0}
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": self._model,
            "content": [*turn.blocks, *uses], "stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        self._add("assistant", turn, message)
        for call in turn.calls:
            result: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": result_of(call)}
            if call.failed:
                result["is_error"] = True
            self._add("user", turn, {"role": "user", "content": [result]})

    def _add(self, kind: str, turn: ExportedTurn, message: dict[str, Any]) -> None:
        own = str(uuid.uuid4())
        place = {"parentUuid": self._last, "type": kind, "message": message, "uuid": own, "timestamp": turn.timestamp}
        self.all.append({**self._common, **place})
        self._last = own
