"""Codex: a rollout, in which each text is there twice: as an item for the model and as an event for the screen."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import msgspec

from sessiond.exporters.conversation import ExportedTurn, result_of
from sessiond.exporters.picture import data_url
from sessiond.importers.came_from import PARENT
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.target import (
    PICTURES_IN_RESULTS,
    FileTarget,
    SessionCopy,
    Written,
    lines,
    pictures_of,
    text_of,
    timed_uuid,
)

_VERSION = "0.169.0"


class CodexTarget(FileTarget):
    name = program = importer = "codex"
    holds = PICTURES_IN_RESULTS
    urls = True

    def command(self, written: Written) -> list[str]:
        return ["codex", "resume", written.id]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        session_id = timed_uuid(copy.moment)
        began = datetime.fromtimestamp(copy.moment / 1000, UTC).astimezone()  # its folders are by local time
        base = self.base(copy.cwd, "CODEX_HOME", ".codex")
        name = f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{session_id}.jsonl"
        path = os.path.join(base, "sessions", f"{began:%Y}", f"{began:%m}", f"{began:%d}", name)
        now = timestamp(copy.moment)
        # No model provider: Codex refuses a session of another one than its own.
        meta = {
            "id": session_id, "timestamp": now, "cwd": copy.cwd, "originator": "codex_cli_rs", "cli_version": _VERSION,
            "source": "cli", PARENT: copy.parent,
        }  # fmt: skip
        records = [_record(now, "session_meta", meta)]
        for turn in copy.turns:
            records += _turn(turn)
        return Written(session_id, path), lines(records)


def _record(time: str, kind: str, payload: dict[str, Any]) -> JsonObject:
    return {"timestamp": time, "type": kind, "payload": payload}


def _turn(turn: ExportedTurn) -> list[JsonObject]:
    found = []

    def item(payload: JsonObject) -> None:
        found.append(_record(turn.timestamp, "response_item", payload))

    kind = "input_text" if turn.role == "user" else "output_text"
    if turn.blocks:
        item({"type": "message", "role": turn.role, "content": [_content(block, kind) for block in turn.blocks]})
        text = text_of(turn.blocks)
        event = {"type": "user_message", "message": text, "images": []} if turn.role == "user" else None
        found.append(_record(turn.timestamp, "event_msg", event or {"type": "agent_message", "message": text}))
    for call in turn.calls:
        arguments = msgspec.json.encode(call.arguments).decode()
        item({"type": "function_call", "name": call.name, "arguments": arguments, "call_id": call.id})
    for call in turn.calls:
        blocks = result_of(call)
        shown = pictures_of(blocks)
        output = [_content(block, "input_text") for block in blocks] if shown else text_of(blocks)
        item({"type": "function_call_output", "call_id": call.id, "output": output})
    return found


def _content(block: JsonObject, kind: str) -> JsonObject:
    if block["type"] == "text":
        return {"type": kind, "text": block["text"]}
    return {"type": "input_image", "image_url": data_url(block)}
