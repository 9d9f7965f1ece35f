"""A session while it is being read: gives messages ids and times, finds repeats, and replaces values that
cannot be kept.

Theory of operation
-------------------
An importer is a fold over the records of a source. The draft of a session is the part of its state that all importers have in
common, and must be small, because sources have gigabytes and millions of messages: it has ids and hashes, never texts.

A source is read again whenever its tool has written, so a message must get the same id each time, whatever is before or after it:

    the source's own id   is kept. The same id with the same content is a repeat, and left out. With other content it is another
                          message: tools copy records, and ids are sometimes counts
    no id                 one is derived from what the message says, who said it and when. The second one that says exactly the
                          same is told apart by its number (`_repeats`), not by its place in the file

A message without a time has that of the message before it. As that is a guess, it does not count as something that the source
says (`_guessed`): another guess at the next reading is not a later version of the message.

A draft can be copied: a file that grows is read on from such a copy (`growth`), and what came after it is read once more.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterator, MutableMapping, Sequence
from datetime import datetime

from sessiond.importers.jsontext import as_text, encoded, fit, is_fit
from sessiond.importers.overlay import Table
from sessiond.importers.record import (
    Event,
    InfoUpdate,
    MessageRecord,
    SessionEnd,
    SessionStart,
    SkippedLine,
    Unknown,
    digest_of_json,
)
from sessiond.limits import DEFAULT
from sessiond.model.session import UNTITLED
from sessiond.model.values import JsonObject, WireObject, derived_id, normal_timestamp, timestamp

_ID_CHARS = 256
_RECORDS = 200
_TAGS = 100
_BLOCKS = frozenset(
    {
        "text", "image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video", "resource",
        "resource_link", "refusal", "inlineData", "fileData", "executableCode", "codeExecutionResult", "imageUrl", "image_file",
        "attachment", "mention", "binary", "agent", "subtask", "compaction", "retry", "image_asset_pointer",
        "audio_asset_pointer", "audio_transcription", "real_time_user_audio_video_asset_pointer", "video_container_asset_pointer",
    }
)  # fmt: skip
"""Types of content blocks that vendors and tools have, besides those that become fields of a message."""
_PERSON, _COMMAND, _ASIDE, _ANSWER = range(4)
"""Whose words name a session without a title, the best first: a person's, a command's, those of a subagent or of a prompt that was
taken back, the model's.
"""
_KINDS = 100
_KIND_CHARS = 80
_RECORDS_BYTES = 256 * 1024
_NOT_ID = re.compile(r"[^A-Za-z0-9._-]+")
_ZONED = re.compile(r"[Zz]$|[+-]\d\d:?\d\d$")
_NAME_CHARS = 80
_SENTENCE = re.compile(r".{8,}?[.!?](?=\s|$)|.{4,}?[。！？]")
_TEXT_FIRST = b'{"content":"'
"""How the JSON of most messages begins. The brackets in the text that follows open no list or object."""
_NO_TIME = "1970-01-01T00:00:00.000Z"
_MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds since 1970; smaller ones are seconds (the limit is in the year 5138)."""


def suggest_id(tool: str, source_id: str) -> str:
    """A valid session id, always the same for the same source, and readable if the source's id is."""
    text = f"{tool}-{source_id}"
    clean = _NOT_ID.sub("-", text).strip("-")
    if clean == text and len(text) <= 128:
        return text
    return f"{clean[:100]}-{digest(source_id)}"


def digest(text: str) -> str:
    """A digest of a text, ten hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def moment(value: object) -> str | None:
    """A time as any tool writes it (RFC 3339, SQL, seconds or milliseconds since 1970) in the protocol's form; None if it
    is not a time.

    Text without a zone is local time, as the protocol says.
    """
    try:
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, (int, float)):
            return timestamp(round(value if abs(value) >= _MILLISECONDS_FROM else value * 1000))
        if isinstance(value, str):
            return normal_timestamp(value)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def utc_moment(value: object) -> str | None:
    """Like `moment`, for sources whose text without a zone is UTC (SQLite's CURRENT_TIMESTAMP)."""
    if isinstance(value, str) and not _ZONED.search(value.strip()):
        return moment(value.strip() + "Z")
    return moment(value)


def local_moment(text: str) -> str | None:
    """`YYYY-MM-DD HH:MM:SS` in local time."""
    try:
        return normal_timestamp(datetime.fromisoformat(text).isoformat())
    except (ValueError, OverflowError, OSError):
        return None


class SessionDraft:
    """One session of a stream. The importer calls `start` once, `message` for each record and `end` last."""

    def __init__(self, tool: str, path: str, source_id: str, fallback_time: str | None = None) -> None:
        self.tool = tool
        self.path = path
        self.source_id = source_id
        self.suggested_id = suggest_id(tool, source_id)
        self.started = False
        self.last_time: str | None = None
        self.model: str | None = None
        self._fallback = fallback_time
        self._known: WireObject = {}
        self._seen: MutableMapping[str, bytes] = Table()
        """Ids, with the digests of their records."""
        self._repeats: MutableMapping[str, int] = Table()
        self._guessed: MutableMapping[str, None] = Table()
        """Ids of messages without a time of their own."""
        self._records: list[object] = []
        self._records_bytes = 0
        self._not_kept = 0
        self._first_words: dict[int, str] = {}
        """By rank: of the first message that a person wrote, or else of another one."""
        self._unknown: dict[str, int] = {}

    def start(self, *, metadata: JsonObject | None = None, **info: object) -> SessionStart:
        """The start of the session, or, of one that is read on, what it is now. `info`: SessionInfo's wire fields; those that are None
        are left out.
        """
        source = {"tool": self.tool, "path": self.path, "id": self.source_id}
        known = {key: value for key, value in info.items() if value is not None}
        known["metadata"] = {**_apart(metadata), "source": source}
        self._known = _clean_info(known)
        if not self.started:
            self.last_time = self.last_time or self._known.get("createdAt")
            self.model = self._known.get("model")
        self.started = True
        return SessionStart(self.source_id, self.suggested_id, self._known)

    def known(self, key: str) -> object:
        """Return what was said of the session at its start."""
        return self._known.get(key)

    def copied(self) -> SessionDraft:
        """A draft that goes on from here, and leaves this one as it is."""
        twin = copy.copy(self)
        twin._seen, twin._repeats, twin._guessed = Table(self._seen), Table(self._repeats), Table(self._guessed)
        twin._records, twin._first_words, twin._unknown = (
            list(self._records),
            dict(self._first_words),
            dict(self._unknown),
        )
        return twin

    def has(self, message_id: str) -> bool:
        return message_id in self._seen

    def message(
        self,
        role: str,
        content: str | list[object],
        *,
        line: int | None = None,
        id: object = None,  # the wire's word
        time: object = None,
        metadata: JsonObject | None = None,
        **rest: object,
    ) -> Sequence[Event]:
        """The record of one message (none for an exact repeat), after a SkippedLine if something in it had to be replaced.

        `time`: in any form that `moment` knows, or already normalised; None if the source has none.
        """
        at = moment(time)
        if not isinstance(content, str):
            self._count_blocks(content)
        wire: WireObject = {"role": role or "unknown", "content": content}
        for key, value in rest.items():
            if value is not None:
                wire[key] = value
        if time is not None and at is None:
            metadata = {**(metadata or {}), "sourceTimestamp": time}
        if metadata:
            wire["metadata"] = metadata
        wire["timestamp"] = at or self.last_time or self._fallback or _NO_TIME
        said: list[Event] = []
        text = encoded(wire)
        if text is None or not is_fit(wire, text, len(content) if text.startswith(_TEXT_FIRST) else 0):
            wire = fit(wire)
            text = encoded(wire) or b""
            said.append(SkippedLine(self.path, line, "replaced values that cannot be kept", taken=True))
        if at is None:  # a guess is not something that the source says: at a repeat it is another one
            text = encoded({key: value for key, value in wire.items() if key != "timestamp"}) or b""
        mark = digest_of_json(text)
        fresh_id = self._id_for(id, wire, mark, at)
        if fresh_id is None:
            return [*said, SkippedLine(self.path, line, "an exact repeat of an earlier record")]
        self.last_time = at or wire["timestamp"]
        if _PERSON not in self._first_words:
            self._take_words(role, content, metadata or {})
        if at is None:
            self._guessed[fresh_id] = None
        said.append(MessageRecord(self.source_id, {"id": fresh_id, **wire}, mark))
        return said

    def with_metadata(self, record: MessageRecord, more: JsonObject) -> MessageRecord:
        """The record of a message of this session, with `more` in its metadata."""
        message = {**record.message, "metadata": {**record.message.get("metadata", {}), **more}}
        left_out = ("id", "timestamp") if message["id"] in self._guessed else ("id",)
        text = encoded({key: value for key, value in message.items() if key not in left_out}) or b""
        return MessageRecord(record.source_id, message, digest_of_json(text))

    def _id_for(self, given: object, wire: WireObject, mark: bytes, at: str | None) -> str | None:
        """The id of a record; None if the source already has exactly this record."""
        if isinstance(given, (str, int)) and not isinstance(given, bool) and given != "":
            wanted = fit(str(given))
            wanted = wanted if len(wanted) <= _ID_CHARS else f"{wanted[:200]}-{digest(wanted)}"
            if wanted not in self._seen:
                self._seen[wanted] = mark
                return wanted
            if self._seen[wanted] == mark:
                return None
            # The same id with other content is another message. Its id must not depend on what else is in the file.
            return self._derived([wanted], wire, at)
        return self._derived([], wire, at)

    def _derived(self, more: list[str], wire: WireObject, at: str | None) -> str:
        said = [
            as_text(wire["content"]),
            as_text(wire.get("toolCalls")),
            as_text(wire.get("toolCallId")),
            as_text(wire.get("thinking")),
        ]
        parts = [self.tool, self.source_id, at or "", wire["role"], *said, *more]
        first = derived_id(parts)
        nth = self._repeats.get(first, 0)
        self._repeats[first] = nth + 1
        fresh = first if nth == 0 else derived_id(parts, nth)
        self._seen.setdefault(fresh, b"")
        return fresh

    def _take_words(self, role: str, content: str | list[object], metadata: JsonObject) -> None:
        rank = _rank(role, metadata)
        if rank is None or rank in self._first_words:
            return
        command = metadata.get("command")
        words = first_words(_command_line(command) if isinstance(command, dict) else content)
        if words:
            self._first_words[rank] = words

    def _count_blocks(self, content: list[object]) -> None:
        """Count what is kept in a message's content although nobody knows what it is."""
        for block in content:
            kind = _kind_of_block(block)
            if kind not in _BLOCKS:
                self.unknown(f"block {kind}")

    def unknown(self, kind: object) -> None:
        """Count a record of a kind that this importer does not know."""
        name = fit(str(kind))[:_KIND_CHARS] if kind not in (None, "") else "without a type"
        if name in self._unknown or len(self._unknown) < _KINDS:
            self._unknown[name] = self._unknown.get(name, 0) + 1

    def keep(self, record: object, *, known: bool = False) -> None:
        """Keep a record that is not a message verbatim in the session's metadata (`records`), as long as there is room. If its
        kind is not `known`, it is counted too.
        """
        if not known:
            self.unknown(record.get("type") if isinstance(record, dict) else None)
        text = encoded(record) or b""
        if len(self._records) >= _RECORDS or self._records_bytes + len(text) > _RECORDS_BYTES:
            self._not_kept += 1
            return
        self._records_bytes += len(text)
        self._records.append(fit(record))

    def end(self, *, metadata: JsonObject | None = None, **fields: object) -> Iterator[Event]:
        """The end of the session, after an update with what was not yet known at its start."""
        if not self.started:
            return
        for kind, count in sorted(self._unknown.items()):
            yield Unknown(self.path, kind, count)
        if self._not_kept:
            reason = (
                f"{self._not_kept} more records that are not messages; the session's metadata keeps only the first ones"
            )
            yield SkippedLine(self.path, None, reason)
        fields = {"model": self.model, **{key: value for key, value in fields.items() if value is not None}}
        late = _apart(metadata)
        if self._first_words and not (self._known.get("name") or fields.get("name")):
            fields["name"] = late[UNTITLED] = self._first_words[min(self._first_words)]
        if self._records:
            late["records"] = self._records
        known = _clean_info({**fields, "metadata": late})
        changed = {key: value for key, value in known.items() if value is not None and value != self._known.get(key)}
        if not late:
            changed.pop("metadata", None)
        if changed:
            yield InfoUpdate(self.source_id, self.suggested_id, changed)
        yield SessionEnd(self.source_id)


def _kind_of_block(block: object) -> str:
    """Its type; of a part of Google's, its first key."""
    if not isinstance(block, dict):
        return "text" if isinstance(block, str) else "without a type"
    kind = block.get("type", block.get("content_type"))
    return kind if isinstance(kind, str) else next((key for key in block if isinstance(key, str)), "without a type")


def _command_line(command: JsonObject) -> str:
    return " ".join(str(command[key]) for key in ("name", "args") if command.get(key))


def _rank(role: str, metadata: JsonObject) -> int | None:
    """Return how well a message's first words name its session; None: not at all."""
    if metadata.get("injected") or role not in ("user", "assistant"):
        return None
    if role == "assistant":
        return _ANSWER
    if metadata.get("command"):
        return _COMMAND
    aside = any(metadata.get(key) for key in ("sidechain", "branch", "rewound"))
    return _ASIDE if aside else _PERSON


def first_words(content: str | list[object]) -> str | None:
    """The first sentence of a message's text, for a name; None if it has no words."""
    for block in [content] if isinstance(content, str) else content:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str) and text.strip():
            line = " ".join(text.strip().splitlines()[0].split())
            sentence = _SENTENCE.match(line)
            words = sentence[0] if sentence else line
            return words if len(words) <= _NAME_CHARS else words[: _NAME_CHARS - 1].rstrip() + "…"
    return None


def tags_of(value: object) -> list[str] | None:
    """The tags that a source gives a session: texts, or objects with a `name`. None if it has no list of them."""
    if not isinstance(value, list):
        return None
    names = (one.get("name") if isinstance(one, dict) else one for one in value)
    clean = (" ".join(one.split())[: DEFAULT.name_chars] for one in names if isinstance(one, str))
    return list(dict.fromkeys(one for one in clean if one))[:_TAGS]


def _apart(metadata: JsonObject | None) -> JsonObject:
    """A tool's own `source` must not replace ours."""
    out = dict(metadata or {})
    if "source" in out:
        out["toolSource"] = out.pop("source")
    return out


def _clean_info(info: JsonObject) -> WireObject:
    """Info in a valid form: texts, times, a name that is not too long. Anything else is corrected or left out."""
    out: WireObject = fit(info, 60)
    for key in ("createdAt", "updatedAt"):
        if key in out:
            out[key] = moment(out[key])
    for key in ("name", "model", "cwd", "summary"):
        if key in out and not isinstance(out[key], str):
            out[key] = None
    if "tags" in out:
        out["tags"] = tags_of(out["tags"])
    if not isinstance(out.get("archived"), bool):
        out.pop("archived", None)
    if out.get("name"):
        out["name"] = " ".join(out["name"].split())[: DEFAULT.name_chars]
    return {key: value for key, value in out.items() if value not in (None, "")}
