"""Factory Droid: `~/.factory/sessions/<folder>/<uuid>.jsonl`, one record per line; `<uuid>.settings.json` next to it has the
model and the tokens.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from sessiond.importers.blocks import text_of
from sessiond.importers.draft import SessionDraft
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Ignored, Opener
from sessiond.importers.source_file import beside, parent_of, rest_of, stem, word
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_START = "session_start"
_STATES = frozenset({"todo_state", "session_end"})
_USED = ("type", "id", "timestamp", "message")


class Droid(Tool):
    name = "droid"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl") or b'"session_start"' not in head:
            return 0
        return 92 if any(record.get("type") == _START and "id" in record for record in head_objects(head)) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        settings = beside(path, f"{stem(path)}.settings.json", open_)
        yield from read_with(_Reader(path, settings), path, open_)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(env.get("FACTORY_HOME_OVERRIDE") or home, ".factory", "sessions")]


class _Reader:
    def __init__(self, path: str, settings: JsonObject) -> None:
        self._path = path
        self._settings = settings
        self._draft = SessionDraft(Droid.name, path, stem(path))
        self._ignored: Counter[str] = Counter()

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind, message, time = record.get("type"), record.get("message"), record.get("timestamp")
        if not self._draft.started:
            yield self._start(record if kind == _START else {}, time)
        if kind == "message" and isinstance(message, dict) and isinstance(message.get("role"), str):
            turn = Turn(message["role"], {**rest_of(record, *_USED), **rest_of(message, "role", "content", "model")})
            turn.take(message.get("content"))
            if turn.role == "user" and text_of(message.get("content")).lstrip().startswith("<system-reminder>"):
                turn.metadata["injected"] = True
            if isinstance(model := message.get("model"), str):
                self._draft.model = model
            yield from turn.events(self._draft, line=line, id=record.get("id"), time=time)
        elif kind == "compaction_state":
            turn = Turn("system", rest_of(record, *_USED, "summary", "summaryText"))
            summary = record.get("summary") or record.get("summaryText")
            turn.say(summary.get("body") if isinstance(summary, dict) else summary)
            yield from turn.events(self._draft, line=line, id=record.get("id"), time=time)
        elif word(kind) in _STATES:
            self._ignored[str(kind)] += 1
        elif kind != _START:
            self._draft.keep(record)

    def _start(self, record: JsonObject, time: object) -> Event:
        settings = {"settings": rest_of(self._settings, "model")} if self._settings else {}
        return self._draft.start(
            name=record.get("sessionTitle") or record.get("title"),
            createdAt=record.get("created_at") or time,
            cwd=record.get("cwd"),
            model=self._settings.get("model"),
            parent=parent_of(Droid.name, record.get("parent")),
            metadata={**rest_of(record, *_USED, "title", "sessionTitle", "cwd", "parent"), **settings},
        )

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)
