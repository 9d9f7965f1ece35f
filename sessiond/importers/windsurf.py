"""Windsurf: `~/.windsurf/transcripts/<id>.jsonl`, which Cascade writes for the hook that asks for transcripts. Its own store is
encrypted and cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.draft import SessionDraft
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Opener
from sessiond.importers.source_file import mapped, rest_of, stem, written_at
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_KINDS = ("user_input", "planner_response")


class Windsurf(Tool):
    name = "windsurf"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl") or not any(kind.encode() in head for kind in _KINDS):
            return 0
        found = (one for one in head_objects(head)[:10] if one.get("type") in _KINDS)
        return 90 if any("status" in one and isinstance(one.get(str(one["type"])), dict) for one in found) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(_Reader(path), path, open_)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(home, ".windsurf", "transcripts")]


class _Reader:
    def __init__(self, path: str) -> None:
        self._draft = SessionDraft(Windsurf.name, path, stem(path), fallback_time=written_at(path))
        self._steps = 0

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._draft.start(createdAt=written_at(self._draft.path))
        self._steps += 1
        kind = str(record.get("type"))
        data = mapped(record.get(kind))
        turn = Turn("assistant", rest_of(record, "type", "status", kind))
        if kind == "user_input":
            turn = Turn("user", {**turn.metadata, **rest_of(data, "user_response")})
            turn.say(data.get("user_response"))
        elif kind == "planner_response":
            turn.metadata |= rest_of(data, "response", "thinking")
            turn.think(data.get("thinking"))
            turn.say(data.get("response"))
        elif isinstance(record.get(kind), dict):
            call_id = f"step-{self._steps}"
            turn.call(call_id, kind, rest_of(data, "output", "result"))
            for shown in (data[key] for key in ("output", "result") if data.get(key) is not None):
                turn.result(call_id, shown)
        else:
            turn = Turn("system", {"record": record})
        yield from turn.events(self._draft, line=line)

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
