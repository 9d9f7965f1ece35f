"""Claude Code: `~/.claude/projects/<folder>/<uuid>.jsonl`, one record per line, a tree by `parentUuid`.

A file is a session, named after the file. Interleaved records of subagents stay in it (`metadata.sidechain`). A file
whose records name another file's session belongs to a subagent, and its `parent` is that session. A fork names its parent;
a session that was resumed begins with its records. The tool shows a file as one talk, whatever its records name, and so do we.
See docs/importers.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sessiond.importers.blocks import parts_of, text_of
from sessiond.importers.came_from import PARENT
from sessiond.importers.claude_code_message import rest_of, tokens
from sessiond.importers.claude_code_names import Names
from sessiond.importers.claude_code_repeats import REPEAT, ClaudeCodeRepeats
from sessiond.importers.claude_code_start import ResumedSession, forked_from, start
from sessiond.importers.claude_code_tree import Tree, tree_of
from sessiond.importers.claude_code_user import marks
from sessiond.importers.draft import SessionDraft
from sessiond.importers.kept_output import KEY, ClaudeCodeOutputs
from sessiond.importers.lines import LineReader, head_objects, read_with
from sessiond.importers.qwen import is_qwen
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine, open_source
from sessiond.importers.source_file import without, word
from sessiond.model.values import JsonObject

_NO_CONTENT = frozenset(
    {
        "file-history-snapshot", "progress", "last-prompt", "mode", "permission-mode",
        "api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state", "tools-used",
    }
)  # fmt: skip
"""Bookkeeping. A blob holds what was sent to the model: reminders of the tool's, and the prompt once more."""
_QUEUE = "queue-operation"
"""A prompt that waits, or its end. What waited is kept: it may never have been sent."""
_BEFORE_START = 1000


class ClaudeCode:
    name = "claude-code"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".jsonl"):
            return 0
        for record in head_objects(head):
            if is_qwen(record):
                return 0
            if "sessionId" in record and ("parentUuid" in record or record.get("type") in (_QUEUE, "progress")):
                return 95
            if record.get("type") == "summary" and "leafUuid" in record:
                return 90
            if record.get("type") == "file-history-snapshot" and "messageId" in record:
                return 90
        # The first line may be longer than the head.
        return 90 if b'"parentUuid"' in head and b'"sessionId"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_with(self.reader(path, open_), path, open_)

    def reader(self, path: str, open_: Opener) -> LineReader:
        # A first pass, because only the last record shows which branches were abandoned. Its bytes are not counted as read.
        return _Reader(path, tree_of(path, open_source), open_)


class _Reader:
    """Reads one file. Knows what it has seen so far: ids, names, counts."""

    def __init__(self, path: str, tree: Tree, open_: Opener) -> None:
        self._path = path
        self._outputs = ClaudeCodeOutputs(path, open_)
        self._tree = tree
        self._draft = SessionDraft(ClaudeCode.name, path, os.path.basename(path).removesuffix(".jsonl"))
        self._repeats = ClaudeCodeRepeats(path, open_source, tree, self._draft.has)
        self._ignored: Counter[str] = Counter()
        self._names = Names(ClaudeCode.name, path)
        self._before_start: list[JsonObject] = []
        self._has_parent = False
        self._forked_from: JsonObject | None = None
        self._continued = ResumedSession(self._draft)

    def feed(self, line: int, record: JsonObject) -> Iterable[Event]:
        # In a file that has each record twice, only one of the two may name it.
        self._forked_from = self._forked_from or forked_from(self._draft, record)
        self._continued.take(record)
        fullest = self._repeats.take(line, record)
        return self._read(line, fullest) if fullest is not None else (SkippedLine(self._path, line, REPEAT),)

    def stands_with(self, before: int, lines: Sequence[bytes]) -> bool:
        return self._tree.stands_with(before, lines)

    def _read(self, line: int, record: JsonObject) -> Iterable[Event]:
        kind = record.get("type")
        message = record.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            return self._turn(line, record, message)
        if self._names.take(record):
            return ()
        if word(kind) in _NO_CONTENT or (kind == _QUEUE and "content" not in record):
            self._ignored[str(kind)] += 1
        elif kind == "system":
            return self._system(line, record)
        elif "uuid" in record:
            return self._other(line, record, message if isinstance(message, dict) else None)
        elif self._draft.started:
            self._keep(record)
        else:
            self._before_start.append(record)
            del self._before_start[_BEFORE_START:]
        return ()

    def _message(
        self, line: int, record: JsonObject, role: str, content: str | list[Any], metadata: JsonObject, **rest: Any
    ) -> Iterable[Event]:
        """The message of a record, after the start of the session if it is the first one."""
        rest |= {"line": line, "id": record.get("uuid"), "time": record.get("timestamp"), "metadata": metadata}
        if self._draft.started:
            return self._draft.message(role, content, **rest)
        return self._first(record, role, content, rest)

    def _first(self, record: JsonObject, role: str, content: str | list[Any], rest: dict[str, Any]) -> Iterator[Event]:
        """The session begins even if something is wrong with its first message."""
        begin = start(self._draft, record)
        yield begin
        self._has_parent = "parent" in begin.info
        for kept in self._before_start:
            self._keep(kept)
        self._before_start = []
        yield from self._draft.message(role, content, **rest)

    def _keep(self, record: JsonObject) -> None:
        self._draft.keep(record, known=record.get("type") == _QUEUE)

    def _turn(self, line: int, record: JsonObject, message: JsonObject) -> Iterable[Event]:
        content, kept = self._outputs.take(message.get("content"))
        parts = parts_of(content)
        role = word(message.get("role")) or record["type"]
        metadata = self._metadata(record)
        metadata |= rest_of(message)
        if parts.metadata:
            metadata |= parts.metadata
        if kept:
            metadata[KEY] = kept
        if role == "user" and not parts.result_ids:
            metadata |= marks(record, text_of(parts.content))
        if role == "assistant" and isinstance(model := message.get("model"), str) and model != "<synthetic>":
            self._draft.model = model
            metadata |= tokens(record, message)
        fields = parts.fields()
        if record.get("isApiErrorMessage") is True:
            fields = {"status": "error", **fields}
        return self._message(line, record, "tool" if parts.result_ids else str(role), parts.content, metadata, **fields)

    def _system(self, line: int, record: JsonObject) -> Iterable[Event]:
        """A message from the tool itself. Without text it is bookkeeping."""
        content = record.get("content")
        if not isinstance(content, (str, list)) or not content:
            self._ignored[f"system/{record.get('subtype')}"] += 1
            return ()
        return self._message(line, record, "system", content, without(self._metadata(record), "content"))

    def _other(self, line: int, record: JsonObject, message: JsonObject | None) -> Iterable[Event]:
        """A record of the tree that is not a turn: kept verbatim, with its text."""
        attachment = record.get("attachment")
        role, metadata = "system", JsonObject()
        content: object = ""
        if isinstance(attachment, dict) and attachment.get("type") == "queued_command" and attachment.get("prompt"):
            role, content = "user", attachment["prompt"]
        elif message is not None and isinstance(said_by := message.get("role"), str):
            role, content = said_by, message.get("content", "")
        elif attachment is not None:
            metadata["injected"] = True
        else:
            self._draft.unknown(record.get("type"))
        parts = parts_of(content)
        metadata |= {"record": record, **parts.metadata}
        self._place(record, metadata)
        return self._message(line, record, role, parts.content, metadata, **parts.fields())

    def _metadata(self, record: JsonObject) -> JsonObject:
        kept = without(record, "type", "uuid", "timestamp", "message", PARENT)
        self._place(record, kept)
        return kept

    def _place(self, record: JsonObject, metadata: JsonObject) -> None:
        """Mark what is not on the main path of the conversation."""
        if record.get("isSidechain") is True:
            metadata["sidechain"] = True
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._tree.off_path:
            metadata["branch"] = True

    def end(self) -> Iterator[Event]:
        yield from (*self._tree.failed, *self._repeats.failed)
        parent = None if self._has_parent else self._forked_from or self._continued.parent
        yield from self._draft.end(name=self._names.own(self._draft.has), parent=parent)
        yield from self._names.others(self._draft.has)
        if self._names.summaries and not self._draft.started:
            self._ignored["summary"] += self._names.summaries
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._path, kind, count)
