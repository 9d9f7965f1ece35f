"""Org: a heading with a property drawer for each turn, code in source blocks, Markdown's tables as Org tables.

Prose remains prose. Text that Org would take for structure, a link that runs code, a macro or inline source is broken up
with a zero-width space, as Org's manual advises; inside blocks, with Org's own comma. Blocks do not have header arguments,
so nothing is ever run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sessiond.exporters import turns
from sessiond.model.message import Message
from sessiond.model.session import Session

_GAP = "\u200b"
_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")
_STRUCTURE = re.compile(
    r"^(?:\*+(?=\s|$)|[ \t]*(?:#|:[^\s:]+:|:(?=\s|$)|\[fn:|%%\(|\\begin\{|\$\$|-{5,}[ \t]*$|"
    r"(?:CLOCK|SCHEDULED|DEADLINE|CLOSED):))",
    re.IGNORECASE,
)
_LIVE = re.compile(
    r"(?P<open>\[(?=\[)|\{\{(?=\{)|<(?=<)|@(?=@)|\[(?=fn:))|"
    r"(?P<word>\b(?:src|call)(?=_[^\s{(\[]*[{(\[]))|"
    r"(?P<link>\b(?:elisp|shell|help|info|lisp|file\+\w+|file|id|attachment|docview|mailto|bbdb|irc|gnus|man|eww|rmail|mhe|w3m|news|ftp)(?=:\S))|"
    r"(?P<variables>\bLocal(?=[ \t]+Variables:))",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_BLOCK_ESCAPE = re.compile(r"^(,*)(?=\*|#\+)", re.MULTILINE)
_LANGUAGE = re.compile(r"[^A-Za-z0-9+#_-]")


def render(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    # The first line is ours: Emacs reads variables from it.
    yield "# -*- mode: org -*-\n"
    yield f"#+title: {_inline(turns.title(session))}\n#+options: ^:nil\n\n"
    for label, value in turns.facts(session):
        yield f"- {label} :: {_inline(value)}\n"
    for message in messages:
        yield from _turn(message)
    if session.notes:
        yield "\n* Notes\n"
    for note in session.notes:
        yield f"** {_heading(note.heading)}\n{_drawer({'TIME': note.timestamp, 'THREAD': note.thread or ''})}"
        yield prose(turns.readable(note.content)) + "\n"
    if session.state:
        yield f"\n* State\n{block(turns.pretty(session.state), 'json')}\n"
    # Emacs looks for local variables only after the last form feed.
    yield "\n\f\n# End of the session\n"


def _turn(message: Message) -> Iterator[str]:
    extra = "".join(f" ({mark})" for mark in turns.marks(message))
    properties = {
        "MESSAGE_ID": message.id,
        "ROLE": message.role,
        # Not TIMESTAMP: Org computes that property itself, from the text.
        "TIME": message.timestamp,
        "SEQ": str(message.seq),
        "TOOL_CALL_ID": turns.called(message),
    }
    yield f"\n* {_heading(turns.speaker(message))} {turns.moment(message.timestamp)}{extra}\n{_drawer(properties)}"
    if thought := turns.thinking(message):
        yield f"** Thinking\n{prose(thought)}\n** Said\n"
    for piece in turns.pieces(message):
        if isinstance(piece, turns.TextBlock):
            yield (example(piece.text) if message.role == "tool" and piece.text.strip() else prose(piece.text)) + "\n"
        elif isinstance(piece, turns.Image):
            yield f"/image: {_inline(turns.one_line(piece.url or piece.label))}/\n"
        else:
            yield f"/{_inline(piece.kind)}/\n{_shown(turns.shown(piece.value))}"
    for name, call_id, arguments in turns.calls(message):
        yield f"** Calls {_heading(name)}\n{_drawer({'TOOL_CALL_ID': call_id})}{_shown(turns.arguments(arguments))}"


def _shown(parts: list[turns.ValueText]) -> str:
    """Values in blocks, separate ones under their key."""
    return "".join(f"{prose(part.label + ':') + chr(10) if part.label else ''}{_value(part)}\n" for part in parts)


def _value(part: turns.ValueText) -> str:
    return example(part.text) if part.language == "text" else block(part.text, part.language)


def prose(text: str) -> str:
    """Markdown prose as Org: fences become source blocks, tables Org tables, everything else remains as written."""
    out: list[str] = []
    lines = text.strip("\n").split("\n")
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening:
            end = _closing(lines, at, opening[2])
            out.append(block("\n".join(lines[at + 1 : end]), opening[3]))
            at = end + 1
            continue
        out.append(_prose_line(lines[at]))
        at += 1
    return "\n".join(out)


def _closing(lines: list[str], at: int, fence: str) -> int:
    """The line that closes a fence; past the end if none does."""
    pattern = re.compile(rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    return next((n for n in range(at + 1, len(lines)) if pattern.match(lines[n])), len(lines))


def _prose_line(line: str) -> str:
    if "|" in line and "-" in line and _SEPARATOR.match(line):
        return "|" + "+".join("---" for _ in line.strip().strip("|").split("|")) + "|"
    escaped = _inline(line)
    return _GAP + escaped if _STRUCTURE.match(line) else escaped


def _inline(text: str) -> str:
    """Text without anything that Org would act upon."""
    return _LIVE.sub(lambda match: match[0] + _GAP, text)


def _heading(text: str) -> str:
    """A heading's text: one line, without tags, keywords, priorities or cookies of Org."""
    line = _inline(turns.one_line(text))
    line = re.sub(r":(?=[^\s:]*:\s*$)", ":" + _GAP, line)
    return re.sub(r"^(TODO|DONE|COMMENT)\b|^\[#", lambda match: _GAP + match[0], line) or "?"


def _drawer(properties: dict[str, str]) -> str:
    rows = [f":{key}: {turns.one_line(value)}\n" for key, value in properties.items() if value]
    return f":PROPERTIES:\n{''.join(rows)}:END:\n" if rows else ""


def block(text: str, language: str) -> str:
    """A source block; without a language, an example."""
    language = _LANGUAGE.sub("", language)
    return f"#+begin_src {language}\n{_escaped(text)}\n#+end_src" if language else example(text)


def example(text: str) -> str:
    return f"#+begin_example\n{_escaped(text)}\n#+end_example"


def _escaped(text: str) -> str:
    """Org's own escape of lines in a block that would end it or begin a heading."""
    return _BLOCK_ESCAPE.sub(r",\1", text.rstrip("\n"))
