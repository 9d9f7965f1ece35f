"""Codex: `~/.codex/sessions/Y/M/D/rollout-<time>-<uuid>.jsonl`.

The conversation is in `response_item` records; most `event_msg` records repeat it for the screen. So an event becomes a
message only if no response item has its text, and a `user_message` event next to a user's item distinguishes the user's
words from what Codex itself put under the user's role. See docs/importers.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from sessiond.importers.blocks import text_of
from sessiond.importers.codex_header import source_id, start
from sessiond.importers.codex_history import History
from sessiond.importers.codex_records import TYPES, MessageOf, kind_of, rest_of, said, spoken, thought, used
from sessiond.importers.codex_repeats import CodexRepeats, WaitingRecord
from sessiond.importers.codex_usage import UsageReports
from sessiond.importers.codex_user import UserWords
from sessiond.importers.draft import SessionDraft
from sessiond.importers.lines import LineReader, head_objects, read_with
from sessiond.importers.record import Event, Ignored, MessageRecord, Opener
from sessiond.importers.source_file import without, word
from sessiond.model.values import JsonObject, WireObject

_BOOKKEEPING = frozenset({"token_usage_record", "world_state"})
_EVENT_ROLES = {"agent_message": "assistant", "agent_reasoning": "assistant", "user_message": "user"}


class Codex:
    name = "codex"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        for record in head_objects(head):
            if word(record.get("type")) in TYPES and isinstance(record.get("payload"), dict):
                return 95
        name = os.path.basename(path)
        if name.startswith("rollout-") and (b'"session_meta"' in head or b'"instructions"' in head):
            return 80
        return 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(self.reader(path, open_), path, open_)

    def reader(self, path: str, open_: Opener) -> LineReader:
        return _Reader(path, open_)


class _Reader:
    def __init__(self, path: str, open_: Opener) -> None:
        self._path = path
        self._draft: SessionDraft | None = None
        self._ignored: Counter[str] = Counter()
        self._repeats = CodexRepeats(self._ignored, self._say_event)
        self._user = UserWords(path, open_, self._ignored, self._repeats, self._say_user, self._say_event)
        self._context: JsonObject = {}
        self._history = History()
        self._reports = UsageReports()

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        for event in self._read(line, record):
            self._repeats.put(event)  # `_read` puts events that wait there, too
        yield from self._reports.pass_on(self._repeats.ready())
        self._reports.take(record, self._context.get("model"))

    def stands_with(self, before: int, lines: Sequence[bytes]) -> bool:
        del before
        return self._user.stands_with(lines)

    def _read(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind, payload = kind_of(record)
        if kind == "session_meta":
            self._reports.header(payload)
        if kind == "session_meta" and self._draft is None:
            yield from self._begin(record, payload)
        elif kind == "session_meta":  # a fork begins with a copy of the session that it left, header included
            self._started().keep(record, known=True)
        elif kind == "response_item":
            yield from self._item(line, record, payload)
        elif kind == "event_msg":
            yield from self._event(line, record, payload)
        elif kind == "turn_context":
            self._ignored["turn_context"] += 1
            self._context = without(payload, "user_instructions", "developer_instructions", "turn_id")
        elif kind == "compacted":
            yield from self._compacted(line, record, payload)
        elif record.get("record_type") == "state":
            self._ignored["state"] += 1
        elif (bookkeeping := word(record.get("type"))) in _BOOKKEEPING:
            self._ignored[bookkeeping] += 1
        else:
            yield from self._begin(record, {})
            self._started().keep(record)

    def _begin(self, record: JsonObject, meta: JsonObject) -> Iterator[Event]:
        if self._draft is None:
            draft = SessionDraft(Codex.name, self._path, source_id(self._path, meta))
            begun = start(draft, record, meta, self._ignored)
            self._draft = self._reports.draft = draft  # only now: a header that cannot be read begins no session
            yield begun

    def _started(self) -> SessionDraft:
        assert self._draft is not None
        return self._draft

    def _compacted(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        """The summary, written by a model, that replaces what came before."""
        yield from self._user.settle()
        self._repeats.settle()
        text = payload.get("message")
        rest = without(payload, "message")
        shorter = self._history.without_repeats(rest)
        metadata = {"compaction": True, "record": {"type": "compacted", "payload": shorter}}
        message = MessageOf("system", text if isinstance(text, str) else "", metadata, {})
        yield from self._say(line, record, message, without(rest, "id"))

    def _item(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        yield from self._begin(record, {})
        kind = payload.get("type")
        text = text_of(payload.get("content")) if kind == "message" else ""
        if kind == "message" and payload.get("role") == "user":
            self._reports.asked(text)
            yield from self._user.item(WaitingRecord(line, record, payload, text))
            return
        yield from self._user.settle()
        if kind == "message":
            self._repeats.match("agent_message", text if payload.get("role") == "assistant" else None)
            message: MessageOf | None = said(payload)
        elif kind == "reasoning":
            message = thought(payload)
            self._repeats.match("agent_reasoning", message.fields["thinking"])
        else:
            self._repeats.match()
            message = used(payload, str(kind))
        if message is not None:
            yield from self._say(line, record, message, payload)
        elif kind == "ghost_snapshot":
            self._ignored[kind] += 1
        else:
            yield from self._say(line, record, MessageOf("system", "", {"record": record}, {}))

    def _event(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        kind, text = spoken(payload)
        if kind not in _EVENT_ROLES or not isinstance(text, str):
            self._ignored[f"event_msg/{kind}"] += 1
            return
        yield from self._begin(record, {})
        waiting = WaitingRecord(line, record, {**payload, "type": kind}, text)
        if kind == "user_message":
            self._reports.asked(text)
            yield from self._user.event(waiting)
        else:
            self._repeats.wait(waiting)

    def _say_event(self, event: WaitingRecord) -> Iterator[Event]:
        kind = str(event.payload["type"])
        is_thought = kind == "agent_reasoning"
        content, fields = ("", WireObject(thinking=event.text)) if is_thought else (event.text, WireObject())
        metadata = {**rest_of(event.payload, "message", "text"), "event": kind}
        yield from self._say(event.line, event.record, MessageOf(_EVENT_ROLES[kind], content, metadata, fields))

    def _say_user(self, item: WaitingRecord, injected: bool) -> Iterator[Event]:
        message = said(item.payload)
        if injected:
            message.metadata["injected"] = True
        yield from self._say(item.line, item.record, message, item.payload)

    def _say(
        self, line: int, record: JsonObject, message: MessageOf, payload: JsonObject | None = None
    ) -> Iterator[Event]:
        """A message; `payload`: of the item whose id it gets, or of a compaction."""
        yield from self._begin(record, {})
        role, content, metadata, fields = message
        given = (payload or {}).get("id")
        for event in self._started().message(
            role, content, line=line, id=given, time=record.get("timestamp"), metadata=metadata, **fields
        ):
            if payload is not None and isinstance(event, MessageRecord):
                self._history.note(event.message["id"], payload)
            yield event

    def end(self) -> Iterator[Event]:
        for event in self._user.settle():
            self._repeats.put(event)
        self._repeats.settle()
        yield from self._reports.pass_on(self._repeats.ready())
        yield from self._reports.rest()
        if self._draft is not None:
            model = self._context.get("model")
            yield from self._draft.end(model=model, metadata={"turnContext": self._context} if self._context else None)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)
