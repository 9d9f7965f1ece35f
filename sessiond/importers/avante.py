"""avante (Neovim): `avante/projects/<folder>/history/<n>.json`, messages with Anthropic's blocks; before 2025 only `entries`
of prompt and answer. `metadata.json` next to it names the project's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import beside, read_records, rest_of, stem, written_at
from sessiond.importers.tool import Tool, in_state
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_WORDS = (
    b'"is_user_submission"',
    b'"original_response"',
    b'"selected_filepaths"',
    b'"displayed_content"',
    b'"just_for_display"',
)
_ABOUT = ("title", "timestamp", "messages", "entries", "filename")
_USED = ("message", "uuid", "timestamp", "is_user_submission", "visible", "state")
_ENTRY_USED = ("request", "response", "original_response", "timestamp", "provider", "model")


class Avante(Tool):
    name = "avante"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or b'"title"' not in head or b'"timestamp"' not in head:
            return 0
        return 86 if (b'"messages"' in head or b'"entries"' in head) and any(word in head for word in _WORDS) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        project = beside(path, "metadata.json", open_).get("project_root")
        yield from read_records(lambda about: _Reader(path, about, project), path, open_, "messages", "entries")

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return in_state(home, env, env.get("NVIM_APPNAME") or "nvim", "avante", "projects")


class _Reader:
    def __init__(self, path: str, about: JsonObject, project: object) -> None:
        self._about = about
        self._project = project
        folder = os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(path))))
        fallback = moment(about.get("timestamp")) or written_at(path)
        self._draft = SessionDraft(Avante.name, path, f"{folder}-{stem(path)}", fallback_time=fallback)

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._draft.start(
                name=self._about.get("title"),
                createdAt=self._about.get("timestamp"),
                cwd=self._project,
                metadata=rest_of(self._about, *_ABOUT),
            )
        message = record.get("message")
        if isinstance(model := record.get("model"), str):
            self._draft.model = model
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            turn = Turn(message["role"], rest_of(record, *_USED))
            if turn.role == "user" and (record.get("is_dummy") or record.get("visible") is False):
                turn.metadata["injected"] = True
            turn.take(message.get("content"))
            status = "interrupted" if record.get("state") == "generating" else None
            yield from turn.events(
                self._draft, line=line, id=record.get("uuid"), time=record.get("timestamp"), status=status
            )
        elif "request" in record or "response" in record:
            yield from self._entry(line, record)
        else:
            yield SkippedLine(self._draft.path, line, "neither a message nor an entry")

    def _entry(self, line: int, entry: JsonObject) -> Iterator[Event]:
        """A prompt and its answer, which came together."""
        time = entry.get("timestamp")
        if entry.get("request"):
            turn = Turn("user", rest_of(entry, *_ENTRY_USED))
            turn.take(entry["request"])
            yield from turn.events(self._draft, line=line, time=time)
        turn = Turn("assistant", {"provider": entry["provider"]} if entry.get("provider") else {})
        turn.take(entry.get("original_response") or entry.get("response"))
        if not turn.is_empty:
            yield from turn.events(self._draft, line=line, time=time)

    def end(self) -> Iterator[Event]:
        yield from self._draft.end()
