"""Codex: `~/.codex/sessions/Y/M/D/rollout-<time>-<uuid>.jsonl`.

The conversation is in `response_item` records; most `event_msg` records repeat it for the screen. So an event becomes a
message only if no response item has its text, and a `user_message` event next to a user's item distinguishes the user's
words from what Codex itself put under the user's role. See docs/importers.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import msgspec

from sessiond.importers.blocks import parts_of, text_of, tool_call
from sessiond.importers.bytestream import utf8
from sessiond.importers.codex_usage import UsageReports
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.jsontext import encoded
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.record import Event, Ignored, Opener
from sessiond.importers.source_file import mapped
from sessiond.model.values import JsonObject

_META_BYTES = 4096
_BOOKKEEPING = frozenset({"token_usage_record", "world_state"})
_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions instructions|turn_aborted|"
    r"skill|user_shell_command|collaboration_mode|subagent_notification)\b|# AGENTS\.md instructions)"
)
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
_PATIENCE = 4
"""How many response items an event waits for, in case one of them repeats it."""
_ITEM_EVENTS = {"UserMessage": "user_message", "AgentMessage": "agent_message"}
_EVENT_ROLES = {"agent_message": "assistant", "agent_reasoning": "assistant", "user_message": "user"}


class Codex:
    name = "codex"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        for record in head_objects(head):
            if record.get("type") in _TYPES and isinstance(record.get("payload"), dict):
                return 95
        name = os.path.basename(path)
        if name.startswith("rollout-") and (b'"session_meta"' in head or b'"instructions"' in head):
            return 80
        return 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(_Reader(path, open_), path, open_)


class _Said(msgspec.Struct):
    """An event or a user's item that waits for later records."""

    line: int
    record: JsonObject
    payload: JsonObject
    text: str
    age: int = 0
    events: list[Event] | None = None
    """What becomes of an event, once that is known: nothing, if an item says the same."""


class _Reader:
    def __init__(self, path: str, open_: Opener) -> None:
        self._path = path
        self._open = open_
        self._draft: SessionDraft | None = None
        self._ignored: Counter[str] = Counter()
        self._user: _Said | None = None
        self._user_event: _Said | None = None
        self._events: list[_Said] = []
        self._queue: deque[Event | _Said] = deque()
        """What was read, in order; nothing overtakes an event that waits."""
        self._last: dict[str, str] = {}
        self._user_events: bool | None = None
        self._context: JsonObject = {}
        self._reports = UsageReports()

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        for event in self._read(line, record):
            self._queue.append(event)  # `_read` puts events that wait into the same queue
        yield from self._reports.pass_on(self._ready())
        self._reports.take(record, self._context.get("model"))

    def _ready(self) -> Iterator[Event]:
        """What nothing that waits comes before."""
        while self._queue:
            head = self._queue[0]
            if isinstance(head, _Said) and head.events is None:
                return
            self._queue.popleft()
            if isinstance(head, _Said):
                yield from head.events or ()
            else:
                yield head

    def _read(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind, payload = record.get("type"), record.get("payload")
        if kind not in _TYPES or not isinstance(payload, dict):
            kind, payload = _old_shape(record)
        if kind == "session_meta":
            yield from self._meta(line, record, payload)
        elif kind == "response_item":
            yield from self._item(line, record, payload)
        elif kind == "event_msg":
            yield from self._event(line, record, payload)
        elif kind == "turn_context":
            self._turn_context(payload)
        elif kind == "compacted":
            yield from self._compacted(line, record, payload)
        elif record.get("record_type") == "state":
            self._ignored["state"] += 1
        elif record.get("type") in _BOOKKEEPING:
            self._ignored[str(record["type"])] += 1
        else:
            yield from self._begin(record, {})
            assert self._draft is not None
            self._draft.keep(record)

    # The session

    def _meta(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        if self._draft is None:
            yield from self._begin(record, payload)
        else:
            # A fork begins with a copy of the session that it left, header included.
            self._draft.keep(record, known=True)

    def _begin(self, record: JsonObject, meta: JsonObject) -> Iterator[Event]:
        if self._draft is not None:
            return
        stem = os.path.basename(self._path).removesuffix(".zst").removesuffix(".jsonl")
        found = _UUID.findall(stem)
        own_id = meta.get("id")
        source_id = own_id if isinstance(own_id, str) and own_id else found[-1] if found else stem
        self._draft = self._reports.draft = SessionDraft(Codex.name, self._path, source_id)
        git = meta.get("git") if isinstance(meta.get("git"), dict) else {}
        metadata = {
            key: value for key, value in meta.items() if key not in ("id", "cwd", "timestamp") and value is not None
        }
        for key in [key for key, value in metadata.items() if len(encoded(value) or b"") > _META_BYTES]:
            # Codex's own instructions, which every list of sessions would repeat.
            del metadata[key]
            self._ignored[f"session_meta/{key}"] += 1
        if isinstance(git, dict) and git.get("branch"):
            metadata["gitBranch"] = git["branch"]
        parent = _parent_of(meta)
        if parent and isinstance(mapped(meta.get("source")).get("subagent"), dict):
            metadata["sidechain"] = True
        yield self._draft.start(
            createdAt=meta.get("timestamp") or record.get("timestamp"),
            cwd=meta.get("cwd"),
            parent=parent,
            metadata=metadata,
        )

    def _turn_context(self, payload: JsonObject) -> None:
        self._ignored["turn_context"] += 1
        self._context = {
            k: v for k, v in payload.items() if k not in ("user_instructions", "developer_instructions", "turn_id")
        }

    def _compacted(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        """The summary, written by a model, that replaces what came before."""
        yield from self._settle()
        text = payload.get("message")
        rest = {key: value for key, value in payload.items() if key != "message"}
        content = text if isinstance(text, str) else ""
        yield from self._say(
            line, record, "system", content, {"compaction": True, "record": {"type": "compacted", "payload": rest}}
        )

    # The conversation

    def _item(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        yield from self._begin(record, {})
        kind = payload.get("type")
        if kind == "message" and payload.get("role") == "user":
            yield from self._user_item(_Said(line, record, payload, text_of(payload.get("content"))))
            return
        yield from self._settle_user(None)
        if kind == "message":
            said = text_of(payload.get("content"))
            self._match("agent_message", said if payload.get("role") == "assistant" else None)
            yield from self._message(line, record, payload)
        elif kind == "reasoning":
            said = "\n\n".join(_reasoning(payload))
            self._match("agent_reasoning", said)
            yield from self._say(
                line,
                record,
                "assistant",
                "",
                _rest(payload, "summary", "content"),
                id_=payload.get("id"),
                thinking=said,
            )
        else:
            self._match(None, None)
            yield from self._tool(line, record, payload, str(kind))

    def _message(self, line: int, record: JsonObject, payload: JsonObject, **marks: Any) -> Iterator[Event]:
        parts = parts_of(_content(payload))
        role = payload.get("role") if isinstance(payload.get("role"), str) else "unknown"
        if role == "developer":
            marks["injected"] = True
        metadata = {**_rest(payload, "role", "content"), **parts.metadata, **marks}
        yield from self._say(line, record, str(role), parts.content, metadata, id_=payload.get("id"), **parts.fields())

    def _tool(self, line: int, record: JsonObject, payload: JsonObject, kind: str) -> Iterator[Event]:
        call_id = payload.get("call_id") or payload.get("id")
        if kind in _CALLS:
            name = payload.get("name") or kind.removesuffix("_call")
            call = tool_call(call_id, name, payload.get(_CALLS[kind]))
            metadata = _rest(payload, "name", "call_id", _CALLS[kind], keep_type=kind != "function_call")
            yield from self._say(line, record, "assistant", "", metadata, id_=payload.get("id"), toolCalls=[call])
        elif kind.endswith("_output"):
            output = payload.get("output")
            more: JsonObject = {}
            if isinstance(output, dict):
                more, output = {k: v for k, v in output.items() if k != "content"}, output.get("content")
            metadata = {**_rest(payload, "call_id", "output", keep_type=kind != "function_call_output"), **more}
            parts = parts_of(output)
            yield from self._say(
                line, record, "tool", parts.content, metadata, id_=payload.get("id"), toolCallId=str(call_id or "")
            )
        elif kind == "ghost_snapshot":
            self._ignored[kind] += 1
        else:
            yield from self._say(line, record, "system", "", {"record": record})

    # The user's words, or Codex's own under the user's role

    def _user_item(self, said: _Said) -> Iterator[Event]:
        event = self._user_event
        if event is not None and _same(event.text, said.text):
            self._user_event = None
            self._ignored["event_msg/user_message"] += 1
            yield from self._settle_user(None)
            yield from self._emit_user(said, injected=False)
            return
        yield from self._settle_user(None)
        self._match(None, None)
        self._user = said

    def _settle_user(self, event: _Said | None) -> Iterator[Event]:
        """Decide about the waiting user's item. `event`: the `user_message` that came right after it."""
        event, self._user_event = event or self._user_event, None
        said, self._user = self._user, None
        if said is not None:
            self._ignored["event_msg/user_message"] += event is not None
            injected = event is None and (_INJECTED.match(said.text) is not None or self._has_user_events())
            yield from self._emit_user(said, injected=injected)
        elif event is not None:
            yield from self._emit_event(event)

    def _emit_user(self, said: _Said, *, injected: bool) -> Iterator[Event]:
        marks = {"injected": True} if injected else {}
        yield from self._message(said.line, said.record, said.payload, **marks)

    def _has_user_events(self) -> bool:
        """Whether the file has any events of a user's words: only then does a missing one mean anything."""
        if self._user_events is None:
            told = (b'"user_message"', b'"UserMessage"')
            self._user_events = any(_contains(self._path, self._open, mark) for mark in told)
        return self._user_events

    # Events

    def _event(self, line: int, record: JsonObject, payload: JsonObject) -> Iterator[Event]:
        kind, text = _spoken(payload)
        if kind not in _EVENT_ROLES or not isinstance(text, str):
            self._ignored[f"event_msg/{kind}"] += 1
            return
        yield from self._begin(record, {})
        said = _Said(line, record, {**payload, "type": kind}, text)
        if kind != "user_message":
            self._events.append(said)
            self._queue.append(said)
        elif self._user is not None and not _same(self._user.text, text) and self._user_event is None:
            self._user_event = said
        elif self._user is not None:
            yield from self._settle_user(said)
        else:
            yield from self._settle_user(None)
            self._user_event = said

    def _match(self, kind: str | None, text: str | None) -> None:
        """A response item has arrived: drop events that say the same, and emit those that have waited long enough."""
        waiting: list[_Said] = []
        paired = False
        for said in self._events:
            event = str(said.payload["type"])
            same_kind = event == kind and text is not None
            # An event right before its item is the same even if the texts differ (a reasoning item joins several).
            if (
                same_kind
                and (_same(said.text, text or "") or (said.age == 0 and (not paired or event == "agent_reasoning")))
            ) or _same(said.text, self._last.get(event, "\0")):
                paired = paired or same_kind
                self._ignored[f"event_msg/{event}"] += 1
                said.events = []
                continue
            said.age += 1
            if said.age > _PATIENCE:
                said.events = list(self._emit_event(said))
            else:
                waiting.append(said)
        self._events = waiting
        if kind is not None and text is not None:
            self._last[kind] = text

    def _emit_event(self, said: _Said) -> Iterator[Event]:
        event = str(said.payload["type"])
        metadata = {**_rest(said.payload, "message", "text"), "event": event}
        if event == "agent_reasoning":
            yield from self._say(said.line, said.record, "assistant", "", metadata, thinking=said.text)
        else:
            yield from self._say(said.line, said.record, _EVENT_ROLES[event], said.text, metadata)

    def _settle(self) -> Iterator[Event]:
        """Emit everything that waits, because nothing more will come for it."""
        yield from self._settle_user(None)
        self._match(None, None)
        for said in self._events:
            said.events = list(self._emit_event(said))
        self._events = []

    def _say(
        self,
        line: int,
        record: JsonObject,
        role: str,
        content: Any,
        metadata: JsonObject,
        *,
        id_: Any = None,
        **rest: Any,
    ) -> Iterator[Event]:
        yield from self._begin(record, {})
        assert self._draft is not None
        yield from self._draft.message(
            role, content, line=line, id=id_, time=record.get("timestamp"), metadata=metadata, **rest
        )

    def end(self) -> Iterator[Event]:
        for event in self._settle():
            self._queue.append(event)
        yield from self._reports.pass_on(self._ready())
        yield from self._reports.rest()
        if self._draft is not None:
            model = self._context.get("model")
            yield from self._draft.end(model=model, metadata={"turnContext": self._context} if self._context else None)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)


def _spoken(payload: JsonObject) -> tuple[str, Any]:
    """What kind of event it is, and its text. Since 0.160 or so, Codex tells of items when they are complete, in place of
    events of their own.
    """
    item = payload.get("item")
    if payload.get("type") != "item_completed" or not isinstance(item, dict):
        return str(payload.get("type")), payload.get("message", payload.get("text"))
    kind = _ITEM_EVENTS.get(str(item.get("type")))
    if kind is None:
        return f"item_completed/{item.get('type')}", None
    texts = [
        one["text"] for one in item.get("content") or () if isinstance(one, dict) and isinstance(one.get("text"), str)
    ]
    return kind, "\n".join(texts)


def _old_shape(record: JsonObject) -> tuple[str | None, JsonObject]:
    """A record from before payloads existed, when a rollout was a header and bare items."""
    if "type" not in record and "id" in record and ("instructions" in record or "timestamp" in record):
        return "session_meta", record
    if (
        isinstance(record.get("type"), str)
        and record["type"] not in _TYPES
        and ("role" in record or "call_id" in record or "summary" in record)
    ):
        return "response_item", record
    return None, {}


def _parent_of(meta: JsonObject) -> JsonObject | None:
    """The session that a fork or a subagent came from."""
    source = meta.get("source")
    spawn = source.get("subagent") if isinstance(source, dict) else None
    spawned = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    parent = spawned.get("parent_thread_id") if isinstance(spawned, dict) else meta.get("forked_from_id")
    return {"sessionId": suggest_id(Codex.name, parent), "seq": None} if isinstance(parent, str) and parent else None


def _reasoning(payload: JsonObject) -> list[str]:
    """The readable parts of a reasoning item: its summaries, then its content."""
    out = []
    for key in ("summary", "content"):
        blocks = payload.get(key)
        if isinstance(blocks, list):
            out += [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return out


def _rest(payload: JsonObject, *used: str, keep_type: bool = False) -> JsonObject:
    """The part of a payload that no message field takes."""
    out = {
        key: value
        for key, value in payload.items()
        if key not in used and key not in ("type", "id") and value is not None
    }
    if keep_type:
        out["type"] = payload.get("type")
    return out


def _same(a: str, b: str) -> bool:
    return a.strip() == b.strip()


def _contains(path: str, open_: Opener, needle: bytes) -> bool:
    with utf8(path, open_) as file:
        before = b""
        while chunk := file.read(1 << 18):
            if needle in before + chunk:
                return True
            before = chunk[-len(needle) :]
    return False


def _content(payload: JsonObject) -> Any:
    """The content without empty annotations, so that a single text is a plain string. An item without an id keeps them, because
    its id is made from its content, and must stay what it was.
    """
    content = payload.get("content")
    if not isinstance(content, list) or not payload.get("id"):
        return content
    return [
        {key: value for key, value in block.items() if key != "annotations"}
        if isinstance(block, dict) and block.get("annotations") == []
        else block
        for block in content
    ]
