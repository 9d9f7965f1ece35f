"""Claude Code: `~/.claude/projects/<folder>/<uuid>.jsonl`, one record per line, a tree by `parentUuid`.

A file is a session, named after the file. Interleaved records of subagents stay in it (`metadata.sidechain`). A file
whose records name another file's session belongs to a subagent, and its `parent` is that session. See
docs/importers.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator
from typing import Any

from sessiond.importers import usage
from sessiond.importers.blocks import parts_of, text_of
from sessiond.importers.claude_code_tree import off_path
from sessiond.importers.claude_code_user import marks
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.lines import head_objects, read_with
from sessiond.importers.qwen import is_qwen
from sessiond.importers.record import Event, Ignored, InfoUpdate, Opener, open_source
from sessiond.model.token_usage import amount
from sessiond.model.values import JsonObject

_NO_CONTENT = frozenset(
    {
        "file-history-snapshot", "progress", "last-prompt", "mode", "permission-mode",
        "api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state", "tools-used",
    }
)  # fmt: skip
"""Bookkeeping. A blob holds what was sent to the model: reminders of the tool's, and the prompt once more."""
_SUMMARIES = 1000
_SIBLINGS = 500
_TAIL_BYTES = 32 * 1024


class ClaudeCode:
    name = "claude-code"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        for record in head_objects(head):
            if is_qwen(record):
                return 0
            if "sessionId" in record and (
                "parentUuid" in record or record.get("type") in ("queue-operation", "progress")
            ):
                return 95
            if record.get("type") == "summary" and "leafUuid" in record:
                return 90
            if record.get("type") == "file-history-snapshot" and "messageId" in record:
                return 90
        # The first line may be longer than the head.
        return 90 if b'"parentUuid"' in head and b'"sessionId"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        # A first pass, because only the last record shows which branches were abandoned. Its bytes are not counted as read.
        yield from read_with(_Reader(path, off_path(path, open_source)), path, open_)


class _Reader:
    """Reads one file. Knows what it has seen so far: ids, names, counts."""

    def __init__(self, path: str, off_path: Container[str]) -> None:
        self._path = path
        self._off_path = off_path
        self._stem = os.path.basename(path).removesuffix(".jsonl")
        self._draft = SessionDraft(ClaudeCode.name, path, self._stem)
        self._ignored: Counter[str] = Counter()
        self._summaries: list[tuple[Any, str]] = []
        self._title: str | None = None
        self._custom_title: str | None = None
        self._before_start: list[JsonObject] = []

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        kind = record.get("type")
        message = record.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            yield from self._turn(line, record, message)
        elif kind == "summary" and isinstance(record.get("summary"), str):
            if len(self._summaries) < _SUMMARIES:
                self._summaries.append((record.get("leafUuid"), record["summary"]))
        elif kind in ("custom-title", "ai-title"):
            self._take_title(record)
        elif kind in _NO_CONTENT:
            self._ignored[str(kind)] += 1
        elif kind == "system":
            yield from self._system(line, record)
        elif "uuid" in record:
            yield from self._other(line, record, message if isinstance(message, dict) else None)
        elif self._draft.started:
            self._draft.keep(record)
        else:
            self._before_start.append(record)
            del self._before_start[_SUMMARIES:]

    def _take_title(self, record: JsonObject) -> None:
        if isinstance(record.get("customTitle"), str):
            self._custom_title = record["customTitle"]
        elif isinstance(record.get("aiTitle"), str):
            self._title = record["aiTitle"]

    def _begin(self, record: JsonObject) -> Iterator[Event]:
        if self._draft.started:
            return
        owner = record.get("sessionId")
        parent = None
        if isinstance(owner, str) and owner != self._stem and self._is_subagent(record, owner):
            parent = {"sessionId": suggest_id(ClaudeCode.name, owner), "seq": None}
        metadata = {key: record[key] for key in ("gitBranch", "version", "agentId", "sessionId") if record.get(key)}
        if parent and (record.get("isSidechain") is True or self._stem.startswith("agent-")):
            metadata["sidechain"] = True
        time = record.get("timestamp")
        yield self._draft.start(createdAt=time, cwd=record.get("cwd"), parent=parent, metadata=metadata)
        for kept in self._before_start:
            self._draft.keep(kept)
        self._before_start = []

    def _is_subagent(self, record: JsonObject, owner: str) -> bool:
        """Whether the file is part of another session, not just a renamed copy of it."""
        if record.get("isSidechain") is True or self._stem.startswith("agent-"):
            return True
        return os.path.basename(owner) == owner and os.path.exists(
            os.path.join(os.path.dirname(self._path), owner + ".jsonl")
        )

    def _turn(self, line: int, record: JsonObject, message: JsonObject) -> Iterator[Event]:
        yield from self._begin(record)
        parts = parts_of(message.get("content"))
        role = message.get("role") if isinstance(message.get("role"), str) else record["type"]
        metadata = {**self._metadata(record), **_message_metadata(message), **parts.metadata}
        if role == "user" and not parts.result_ids:
            metadata |= marks(record, text_of(parts.content))
        if role == "assistant" and isinstance(message.get("model"), str) and message["model"] != "<synthetic>":
            self._draft.model = message["model"]
            metadata |= _tokens(record, message)
        yield from self._draft.message(
            "tool" if parts.result_ids else str(role),
            parts.content,
            line=line,
            id=record.get("uuid"),
            time=record.get("timestamp"),
            metadata=metadata,
            status="error" if record.get("isApiErrorMessage") is True else None,
            **parts.fields(),
        )

    def _system(self, line: int, record: JsonObject) -> Iterator[Event]:
        """A message from the tool itself. Without text it is bookkeeping."""
        content = record.get("content")
        if not isinstance(content, (str, list)) or not content:
            self._ignored[f"system/{record.get('subtype')}"] += 1
            return
        yield from self._begin(record)
        metadata = {key: value for key, value in self._metadata(record).items() if key != "content"}
        yield from self._draft.message(
            "system", content, line=line, id=record.get("uuid"), time=record.get("timestamp"), metadata=metadata
        )

    def _other(self, line: int, record: JsonObject, message: JsonObject | None) -> Iterator[Event]:
        """A record of the tree that is not a turn: kept verbatim, with its text."""
        yield from self._begin(record)
        attachment = record.get("attachment")
        role, content, metadata = "system", "", JsonObject()
        if isinstance(attachment, dict) and attachment.get("type") == "queued_command" and attachment.get("prompt"):
            role, content = "user", attachment["prompt"]
        elif message is not None and isinstance(message.get("role"), str):
            role, content = message["role"], message.get("content", "")
        elif attachment is not None:
            metadata["injected"] = True
        else:
            self._draft.unknown(record.get("type"))
        parts = parts_of(content)
        metadata |= {"record": record, **parts.metadata}
        if record.get("isSidechain") is True:
            metadata["sidechain"] = True
        metadata |= self._branch(record)
        yield from self._draft.message(
            role,
            parts.content,
            line=line,
            id=record.get("uuid"),
            time=record.get("timestamp"),
            metadata=metadata,
            **parts.fields(),
        )

    def _metadata(self, record: JsonObject) -> JsonObject:
        kept = {key: value for key, value in record.items() if key not in ("type", "uuid", "timestamp", "message")}
        if record.get("isSidechain") is True:
            kept["sidechain"] = True
        return kept | self._branch(record)

    def _branch(self, record: JsonObject) -> JsonObject:
        uuid = record.get("uuid")
        return {"branch": True} if isinstance(uuid, str) and uuid in self._off_path else {}

    def end(self) -> Iterator[Event]:
        name, foreign = self._name()
        yield from self._draft.end(name=name)
        for leaf, text in foreign:
            owner = _file_with_leaf(self._path, leaf)
            if owner:
                yield InfoUpdate(owner, suggest_id(ClaudeCode.name, owner), {"name": text})
        if self._summaries and not self._draft.started:
            self._ignored["summary"] += len(self._summaries)
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)

    def _name(self) -> tuple[str | None, list[tuple[str, str]]]:
        """This session's name, and the summaries that belong to a record of another file."""
        own = [text for leaf, text in self._summaries if isinstance(leaf, str) and self._draft.has(leaf)]
        foreign = [
            (leaf, text) for leaf, text in self._summaries if isinstance(leaf, str) and not self._draft.has(leaf)
        ]
        fallback = self._summaries[0][1] if self._summaries else None
        return self._custom_title or self._title or (own[-1] if own else fallback), foreign[:20]


def _message_metadata(message: JsonObject) -> JsonObject:
    kept = {key: value for key, value in message.items() if key not in ("type", "role", "content", "id")}
    if "id" in message:
        kept["messageId"] = message["id"]
    return kept


def _tokens(record: JsonObject, message: JsonObject) -> JsonObject:
    """A request's answer is several records, each with the usage so far; resumed sessions repeat them."""
    request = ":".join(str(one) for one in (message.get("id"), record.get("requestId")) if one)
    found = usage.anthropic(message.get("usage"), model=message.get("model"), request=request)
    if found and amount(record.get("costUSD")) is not None:
        found["tokens"]["cost"] = amount(record["costUSD"])
    return found


def _file_with_leaf(path: str, leaf: str) -> str | None:
    """The session next to `path` whose last records contain `leaf`: Claude Code wrote its summary into a later file."""
    folder = os.path.dirname(path) or "."
    wanted = leaf.encode("utf-8", "replace")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".jsonl"))[:_SIBLINGS]
    except OSError:
        return None
    for name in names:
        other = os.path.join(folder, name)
        if name != os.path.basename(path) and os.path.isfile(other) and wanted in _tail(other):
            return name.removesuffix(".jsonl")
    return None


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:
        return b""
