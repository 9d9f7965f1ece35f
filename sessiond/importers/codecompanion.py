"""CodeCompanion (Neovim) with its history extension: `codecompanion-history/chats/<id>.json`, a chat as the plugin holds it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, read_records, rest_of, stem, word, written_at
from sessiond.importers.tool import Tool, in_state
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_FOLDER = "codecompanion-history"
_ROLES = {"llm": "assistant"}
_ABOUT = ("save_id", "title", "messages", "updated_at", "cwd", "settings", "schemas", "title_refresh_count", "cycle")
_USED = ("role", "content", "tools", "tool_calls", "tool_call_id", "reasoning")


class CodeCompanion(Tool):
    name = "codecompanion"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or b'"messages"' not in head or b'"message_count"' in head:
            return 0
        if b'"save_id"' in head and b'"cycle"' in head:
            return 88
        return 85 if f"{os.sep}{_FOLDER}{os.sep}" in path else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_records(lambda about: _Reader(path, about), path, open_, "messages")

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return in_state(home, env, env.get("NVIM_APPNAME") or "nvim", _FOLDER, "chats")


class _Reader:
    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        given, updated = about.get("save_id"), about.get("updated_at")
        source_id = word(given) or stem(path)
        self._draft = SessionDraft(CodeCompanion.name, path, source_id)
        self._time = updated if isinstance(updated, (int, float)) else written_at(path)

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start()
        role = record.get("role")
        if not isinstance(role, str):
            yield SkippedLine(self._draft.path, line, "not a message: it needs a role")
            return
        given, options = record.get("tools"), record.get("opts")
        tools = mapped(given)
        turn = Turn(_ROLES.get(role, role), rest_of(record, *_USED))
        if turn.role == "user" and isinstance(options, dict) and options.get("visible") is False:
            turn.metadata["injected"] = True
        thought = record.get("reasoning")
        turn.think(thought.get("content") if isinstance(thought, dict) else thought)
        call_id = tools.get("call_id", record.get("tool_call_id"))
        if turn.role == "tool" or call_id:
            turn.result(call_id, record.get("content"), error=tools.get("is_error") is True)
        else:
            turn.take(record.get("content"))
        _take_calls(turn, tools.get("calls", record.get("tool_calls")))
        # Its own ids are hashes of what was said, and so the same for the same words said again.
        yield from turn.events(self._draft, line=line)

    def _start(self) -> Event:
        about, settings = self._about, self._about.get("settings")
        return self._draft.start(
            name=about.get("title"),
            createdAt=self._time,
            updatedAt=about.get("updated_at"),
            cwd=about.get("cwd"),
            model=mapped(settings).get("model"),
            metadata=rest_of(about, *_ABOUT),
        )

    def end(self) -> Iterator[Event]:
        if not self._draft.started and self._about.get("save_id"):
            yield self._start()
        yield from self._draft.end()


def _take_calls(turn: Turn, calls: object) -> None:
    for call in listed(calls):
        function = mapped(call).get("function")
        if isinstance(function, dict):
            turn.call(call.get("id"), function.get("name"), function.get("arguments"))
        else:
            turn.metadata.setdefault("calls", []).append(call)
