"""agent-shell (Emacs): `.agent-shell/transcripts/*.md`, a transcript with a heading for each turn and each tool call."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from sessiond.importers.draft import SessionDraft, local_moment
from sessiond.importers.record import Event, Opener
from sessiond.importers.source_file import read_text, stem, written_at
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn

_MARK = "# Agent Shell Transcript"
_FIELD = re.compile(r"\*\*([A-Z][A-Za-z ]*):\*\*(?: (.*))?")
_HEADING = re.compile(r"## (User|Agent|Agent's Thoughts)(?: \((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\))?")
_CALL = re.compile(r"### Tool Call \[(.*?)\]: (.*)")
_FENCE = re.compile(r"`{3,}")


def _begun(*marks: str) -> str:
    """A pattern for the beginnings of marks, without whole ones."""
    return "|".join(re.escape(mark[:end]) for mark in marks for end in range(1, len(mark)))


_UNFINISHED = re.compile(
    _begun("## User", "## Agent's Thoughts", "### Tool Call [")
    + r"|## (?:User|Agent|Agent's Thoughts) (?:\([\d :-]*)?|### Tool Call \[[^]]*(?:\]:?)?"
)
"""What is the beginning of a heading, in the last line of a file that is being written. The file may as well be finished, and end without
a newline: other words are kept.
"""


class AgentShell(Tool):
    name = "agent-shell"

    def recognise(self, path: str, head: bytes) -> int:
        return 95 if path.endswith((".md", ".markdown")) and head.lstrip().startswith(_MARK.encode()) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        text = yield from read_text(path, open_)
        lines = text.split("\n")
        body = _end_of_header(lines)
        if body == len(lines):
            return  # only a part of the header, perhaps without the session's id
        about = {match[1]: match[2] for line in lines[:body] if (match := _FIELD.fullmatch(line))}
        began = local_moment(about.pop("Started", None) or "")
        source_id = about.pop("Session ID", None) or stem(path)
        draft = SessionDraft(self.name, path, source_id, fallback_time=began or written_at(path))
        yield draft.start(
            createdAt=began,
            cwd=about.pop("Working Directory", None),
            model=about.pop("Model", None),
            metadata={key.lower(): value for key, value in about.items()},
        )
        yield from _Sections(draft).read(lines, body + 1 if lines[body] == "---" else body)
        yield from draft.end()


def _end_of_header(lines: list[str]) -> int:
    """The number of the rule's line. Without a rule, that of the first line outside the header, or the count of all lines."""
    for nth, line in enumerate(lines):
        if line == "---" or _HEADING.fullmatch(line) or _CALL.fullmatch(line):
            return nth
    for nth, line in enumerate(lines):
        begun = nth == len(lines) - 1 and (
            line.startswith("**") or line in ("*", "-", "--") or _UNFINISHED.fullmatch(line)
        )
        if line.strip() and not line.startswith(_MARK) and not _FIELD.fullmatch(line) and not begun:
            return nth
    return len(lines)


class _Sections:
    """Turns lines into messages. Everything inside a call's fence is its output, even a heading."""

    def __init__(self, draft: SessionDraft) -> None:
        self._draft = draft
        self._kind = "Agent"
        self._time: str | None = None
        self._from = 1
        self._lines: list[str] = []

    def read(self, lines: list[str], at: int) -> Iterator[Event]:
        while at < len(lines):
            heading, call = _HEADING.fullmatch(lines[at]), _CALL.fullmatch(lines[at])
            if heading:
                yield from self._said()
                self._kind, self._from = heading[1], at + 1
                self._time = local_moment(heading[2]) if heading[2] else None
            elif call:
                yield from self._said()
                at = yield from self._call(lines, at, call)
                continue
            elif at < len(lines) - 1 or not _UNFINISHED.fullmatch(lines[at]):
                self._lines.append(lines[at])
            at += 1
        yield from self._said()

    def _said(self) -> Iterator[Event]:
        """The text since the last heading."""
        text = "\n".join(self._lines).strip("\n")
        self._lines.clear()
        if not text.strip():
            return
        turn = Turn("user" if self._kind == "User" else "assistant")
        if self._kind == "Agent's Thoughts":
            turn.think(text)
        else:
            turn.say(_unquoted(text) if self._kind == "User" else text)
        yield from turn.events(self._draft, line=self._from, time=self._time)

    def _call(self, lines: list[str], at: int, match: re.Match[str]) -> Generator[Event, None, int]:
        """A call and its output. Returns the number of the line after them."""
        first, fields, last = at + 1, {"title": match[2]}, ""
        at += 1
        while at < len(lines) and not _FENCE.fullmatch(lines[at]):
            field = _FIELD.fullmatch(lines[at])
            if field:
                last = field[1].lower()
                fields[last] = field[2] or ""
            elif last and lines[at] and not (lines[at].startswith(("*", "`")) and at == len(lines) - 1):
                fields[last] += f"\n{lines[at]}" if fields[last] else lines[at]
            at += 1
        end = at + 1
        while end < len(lines) and lines[end] != lines[at]:  # the fence ends as it began
            end += 1
        shown = lines[at + 1 : end]
        if end == len(lines) and shown and lines[at].startswith(shown[-1]):
            shown.pop()  # the fence is not closed yet: the file ends with a line, or with a part of the fence
        turn, call_id = Turn("assistant"), f"call-{first}"
        time = local_moment(fields.pop("timestamp", ""))
        turn.call(call_id, fields.pop("tool", ""), fields)
        if at + 1 < len(lines):
            turn.result(call_id, "\n".join(shown), {"status": match[1]}, error=match[1] == "failed")
        yield from turn.events(self._draft, line=first, time=time)
        self._kind, self._from, self._time = "Agent", end + 2, time
        return end + 1


def _unquoted(text: str) -> str:
    """A prompt without the marks of a quotation, which older versions put before each of its lines."""
    lines = text.split("\n")
    if any(line and not line.startswith(">") for line in lines):
        return text
    return "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
