"""Amp: `threads/T-<id>.json`, a document whose `messages` have Anthropic's blocks and results of their own shape."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import mapped, path_of, read_records, rest_of, stem, word, written_at
from sessiond.importers.tool import Tool, in_editors, in_state
from sessiond.importers.turn import Turn
from sessiond.importers.usage import of_camel
from sessiond.model.values import JsonObject

_STATUS = {"cancelled": "interrupted", "error": "error"}
_USED = ("role", "messageId", "content", "meta", "state")


class Amp(Tool):
    name = "amp"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or b'"messages"' not in head or b'"created"' not in head:
            return 0
        named = os.path.basename(path).startswith("T-")
        return 90 if named and (b'"id":"T-' in head or b'"id": "T-' in head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_records(lambda about: _Reader(path, about), path, open_, "messages")

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        threads = in_state(home, env, "amp", "threads")
        return [*threads, *in_editors(home, env, "globalStorage", "sourcegraph.amp", "threads3")]


class _Reader:
    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        source_id = word(about.get("id")) or stem(path)
        self._draft = SessionDraft(Amp.name, path, source_id, fallback_time=written_at(path))

    def _start(self) -> Event:
        about = self._about
        return self._draft.start(
            name=about.get("title"),
            createdAt=about.get("created"),
            cwd=_folder(about.get("env")),
            metadata=rest_of(about, "id", "title", "created", "nextMessageId"),
        )

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start()
        role = record.get("role")
        if not isinstance(role, str):
            yield SkippedLine(self._draft.path, line, "not a message: it needs a role")
            return
        state, meta, usage = (mapped(given) for given in (record.get(key) for key in ("state", "meta", "usage")))
        turn = Turn(role, {**rest_of(record, *_USED), **rest_of(meta, "sentAt")})
        turn.metadata |= of_camel(usage)
        turn.metadata |= {"stopReason": state["stopReason"]} if state.get("stopReason") else {}
        content = record.get("content")
        for block in content if isinstance(content, list) else [content]:
            _take(turn, block)
        if isinstance(model := usage.get("model"), str):
            self._draft.model = model
        yield from turn.events(
            self._draft,
            line=line,
            id=record.get("messageId"),
            time=meta.get("sentAt") or usage.get("timestamp"),
            status=_STATUS.get(str(state.get("type"))),
        )

    def end(self) -> Iterator[Event]:
        if not self._draft.started and self._about.get("id"):
            yield self._start()
        yield from self._draft.end()


def _take(turn: Turn, block: Any) -> None:
    kind = mapped(block).get("type")
    run = mapped(block).get("run")
    if kind == "tool_use":
        rest = rest_of(block, "type", "id", "name", "input", "complete")
        turn.call(block.get("id"), block.get("name"), block.get("input"), **rest)
    elif kind == "tool_result" and isinstance(run, dict):
        error = run.get("error")
        shown = run.get("result", error.get("message", error) if isinstance(error, dict) else error)
        failed = error is not None or run.get("status") in ("error", "rejected-by-user", "cancelled")
        turn.result(
            block.get("toolUseID"), "" if shown is None else shown, rest_of(run, "result", "error"), error=failed
        )
    else:
        turn.take([block])


def _folder(env: object) -> str | None:
    """The first of the folders that were open."""
    trees = mapped(mapped(env).get("initial")).get("trees")
    first = trees[0] if isinstance(trees, list) and trees else None
    return path_of(first.get("uri")) if isinstance(first, dict) else None
