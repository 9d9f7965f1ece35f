"""Qwen Code: Claude Code's tree of records, whose messages are Google's."""

from __future__ import annotations

import os
import uuid

from sessiond.exporters.conversation import ExportedTurn
from sessiond.importers.came_from import PARENT
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.google import function_call, function_response, part
from sessiond.resume.target import FileTarget, SessionCopy, Written, dashed, lines

_VERSION = "0.15.0"


class QwenTarget(FileTarget):
    name = program = importer = "qwen"

    def command(self, written: Written) -> list[str]:
        return ["qwen", "--resume", written.id]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        session_id = str(uuid.uuid4())
        home = self.base(copy.cwd, "QWEN_HOME", ".qwen")
        base = self.base(copy.cwd, "QWEN_RUNTIME_DIR", home)
        path = os.path.join(base, "projects", dashed(copy.cwd), "chats", session_id + ".jsonl")
        records = _Records(copy, session_id)
        for turn in copy.turns:
            records.turn(turn)
        if copy.name:
            title = {"customTitle": copy.name, "titleSource": "manual"}
            records.add("system", timestamp(copy.moment), subtype="custom_title", systemPayload=title)
        records.all[0][PARENT] = copy.parent
        return Written(session_id, path), lines(records.all)


class _Records:
    def __init__(self, copy: SessionCopy, session_id: str) -> None:
        self.all: list[JsonObject] = []
        self._common = {"sessionId": session_id, "cwd": copy.cwd, "version": _VERSION}
        self._model = copy.model or "unknown"
        self._last: str | None = None

    def add(self, kind: str, time: str, **rest: object) -> None:
        own = str(uuid.uuid4())
        self.all.append(
            {**self._common, "uuid": own, "parentUuid": self._last, "type": kind, "timestamp": time, **rest}
        )
        self._last = own

    def turn(self, turn: ExportedTurn) -> None:
        parts = [part(block) for block in turn.blocks]
        if turn.role == "user":
            self.add("user", turn.timestamp, message={"role": "user", "parts": parts})
            return
        parts += map(function_call, turn.calls)
        self.add("assistant", turn.timestamp, model=self._model, message={"role": "model", "parts": parts})
        if turn.calls:
            results = [one for call in turn.calls for one in function_response(call)]
            self.add("tool_result", turn.timestamp, message={"role": "user", "parts": results})
