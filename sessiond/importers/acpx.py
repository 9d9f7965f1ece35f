"""acpx: `~/.acpx/sessions/<id>.json`, a document with messages as Zed has them. Next to it is `<id>.stream.ndjson`, a journal of what
client and agent sent each other; it is read where the document is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sessiond.importers.acpx_journal import AcpxJournal
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.lines import read_with
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import mapped, read_records, rest_of, stem, word, written_at
from sessiond.importers.tool import Tool, Verified
from sessiond.importers.usage import anthropic
from sessiond.importers.zed_messages import turn_of
from sessiond.model.values import JsonObject

_JOURNAL = ".stream.ndjson"
_ABOUT = (
    "schema", "acpx_record_id", "cwd", "created_at", "updated_at", "last_used_at", "title", "messages", "event_log",
    "agent_capabilities", "acpx", "request_token_usage",
)  # fmt: skip


class Acpx(Tool):
    name = "acpx"
    verified: Verified = "real files"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            return 95 if b'"acpx.session.v1"' in head else 0
        if not path.endswith((".ndjson", ".jsonl")) or b'"acpx.session.journal.v1"' not in head:
            return 0
        return 50 if self.is_part(path) else 95

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if path.endswith(".json"):
            yield from read_records(lambda about: _Document(path, about), path, open_, "messages")
        else:
            yield from read_with(AcpxJournal(self.name, path, stem(path).removesuffix(".stream")), path, open_)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(home, ".acpx", "sessions")]

    def is_part(self, path: str) -> bool:
        return path.endswith(_JOURNAL) and os.path.isfile(path.removesuffix(_JOURNAL) + ".json")


class _Document:
    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        source_id = word(about.get("acpx_record_id")) or stem(path)
        self._draft = SessionDraft(
            Acpx.name, path, source_id, fallback_time=moment(about.get("created_at")) or written_at(path)
        )
        self._model = word(mapped(about.get("acpx")).get("current_model_id")) or None

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield self._start()
        if not record.keys() & {"User", "Agent"}:
            self._draft.unknown(next(iter(record), None))
        turn, message_id = turn_of(record, interleaved=True)
        used: object = mapped(self._about.get("request_token_usage")).get(word(message_id))
        turn.metadata |= anthropic(used, model=self._model)
        yield from turn.events(self._draft, line=line, id=message_id)

    def _start(self) -> Event:
        about = self._about
        return self._draft.start(
            name=about.get("title"),
            createdAt=about.get("created_at"),
            updatedAt=about.get("updated_at"),
            cwd=about.get("cwd"),
            model=self._model,
            metadata=rest_of(about, *_ABOUT),
        )

    def end(self) -> Iterator[Event]:
        if not self._draft.started:
            yield SkippedLine(self._draft.path, None, "a session without messages")
            return
        yield from self._draft.end()
