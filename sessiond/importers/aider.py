"""Aider: `.aider.chat.history.md`, one Markdown file with many chats.

`# aider chat started at <local time>` begins a chat, `#### ` marks what the user typed, `> ` marks the tool's output,
and the rest is the assistant's. Aider ends its own lines with two blanks; a `#### ` without them is a heading of the
model's. Within a fenced block of an answer the marks are the answer's own. Only chats have times. Text before the first
chat is the end of an older one and becomes a separate session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from sessiond.importers.aider_lines import Speakers
from sessiond.importers.alone import alone
from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.database import from_json
from sessiond.importers.draft import SessionDraft, digest, local_moment
from sessiond.importers.lines import MAX_LINE_BYTES, raw_lines
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.limits import MIB
from sessiond.model.values import JsonObject, WireObject

_HEADING_WORDS = b"# aider chat started at "
_HEADING = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_MODEL = re.compile(r"(?:Main model|Models?): (\S+)")
_NOT_ENDED = b"not ended"
_MAX_MESSAGE_BYTES = 16 * MIB
_HOUSE_NAME = ".aider.chat.history.md"


class Aider:
    name = "aider"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if any(_HEADING.match(line) for line in head.split(b"\n")):
            return 95
        return 60 if os.path.basename(path) == _HOUSE_NAME else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        reader = _Reader(path, _first_heading(path, open_))
        for number, raw in _settled(path, open_):
            if raw is _NOT_ENDED:
                yield SkippedLine(path, number, "the last line is not ended yet")
            elif raw is None:
                yield SkippedLine(path, number, f"longer than {MAX_LINE_BYTES} bytes")
            else:
                yield from alone(path, "this line", reader.feed(number, raw), number)
        yield from reader.end()


class _Block(msgspec.Struct):
    """Consecutive lines of one speaker."""

    role: str
    line: int
    lines: list[str]
    size: int = 0


class _Reader:
    def __init__(self, path: str, first: str | None) -> None:
        self._path = path
        self._file_id = digest(os.path.realpath(path))
        self._draft = SessionDraft(Aider.name, path, f"before-{self._file_id}", fallback_time=first)
        self._block: _Block | None = None
        self._unanswered: list[_Block] = []
        """What Aider printed of a chat in which nobody has said anything yet: without any words it does not become a session."""
        self._speakers = Speakers()
        self._copied: JsonObject | None = None
        self._same_second: dict[str, int] = {}
        folder, name = os.path.split(os.path.abspath(path))
        self._info: WireObject = {"cwd": folder if name == _HOUSE_NAME else None}
        """What is known of the chat when it begins."""

    def feed(self, number: int, raw: bytes) -> Iterator[Event]:
        heading = _HEADING.fullmatch(raw)
        if heading:
            yield from self.end()
            self._begin(heading[1].decode())
            return
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line = raw.decode("utf-8", "replace")
            yield SkippedLine(self._path, number, "replaced bytes that are not valid UTF-8", taken=True)
        for said in self._speakers.feed(number, line.removesuffix("\r")):
            yield from self._put(*said)

    def _put(self, role: str, number: int, text: str) -> Iterator[Event]:
        block = self._block
        if block is None or block.role != role or block.size > _MAX_MESSAGE_BYTES:
            yield from self._flush()
            block = self._block = _Block(role, number, [])
        block.lines.append(text)
        block.size += len(text)

    def _begin(self, started: str) -> None:
        nth = self._same_second[started] = self._same_second.get(started, 0) + 1
        stamp = started.replace("-", "").replace(":", "").replace(" ", "-")
        source_id = f"{stamp}-{self._file_id}" + (f"-{nth}" if nth > 1 else "")
        time = local_moment(started)
        self._draft = SessionDraft(Aider.name, self._path, source_id, fallback_time=time)
        self._info |= {"createdAt": time, "updatedAt": time}

    def _flush(self) -> Iterator[Event]:
        block, self._block = self._block, None
        if block is not None:
            yield from alone(self._path, "this message", self._flushed(block), block.line)

    def _flushed(self, block: _Block) -> Iterator[Event]:
        if not self._draft.started:
            self._unanswered.append(block)
            if block.role == "tool" or not any(line.strip() for line in block.lines):
                return
            yield self._draft.start(**self._info)
            before, self._unanswered = self._unanswered, []
            for one in before:
                yield from self._message(one)
            return
        yield from self._message(block)

    def _message(self, block: _Block) -> Iterator[Event]:
        text = "\n".join(block.lines).strip("\n") if block.role == "assistant" else "\n".join(block.lines)
        if not text.strip():
            return
        if block.role == "tool":
            if text.startswith(PARENT + " "):
                self._copied = came_from({PARENT: from_json(text.removeprefix(PARENT + " "))})
                return
            model = _MODEL.search(text)
            self._draft.model = model[1] if model else self._draft.model
        yield from self._draft.message(block.role, text, line=block.line)

    def end(self) -> Iterator[Event]:
        for said in self._speakers.end():
            yield from self._put(*said)
        yield from self._flush()
        copied, self._copied = self._copied, None
        self._unanswered = []
        yield from self._draft.end(parent=copied)


def _settled(path: str, open_: Opener) -> Iterator[tuple[int, bytes | None]]:
    """The lines. Of a last one that Aider is still writing and that may become a mark, nothing but `_NOT_ENDED`: read now, it
    would be somebody else's text.
    """
    before: tuple[int, bytes | None] | None = None
    for line in raw_lines(path, open_):
        if before is not None:
            yield before
        before = line
    if before is not None:
        open_mark = before[1] and _may_become_a_mark(before[1]) and _is_open(path)
        yield (before[0], _NOT_ENDED) if open_mark else before


def _is_open(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def _may_become_a_mark(raw: bytes) -> bool:
    return raw.startswith((_HEADING_WORDS, b"#### ")) or any(
        mark.startswith(raw) for mark in (b"#### ", b"> ", _HEADING_WORDS)
    )


def _first_heading(path: str, open_: Opener) -> str | None:
    """The time of the first chat: the latest possible time of the text before it."""
    for _, raw in raw_lines(path, open_):
        heading = _HEADING.fullmatch(raw) if raw is not None else None
        if heading:
            return local_moment(heading[1].decode())
    return None
