"""Markdown (GitHub's): a heading for each turn, messages as they were written, calls and results in fences.

A message is already Markdown, so it remains as it is, as long as it is complete in itself: a fence or comment that it leaves
open would include the turns after it, and raw HTML would not be shown but acted upon. Such messages are corrected, or shown
verbatim in a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sessiond.exporters import turns
from sessiond.exporters.headings import is_below, lowered
from sessiond.model.message import Message
from sessiond.model.session import Session

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!(?:https?://|mailto:))")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_WORD = re.compile(r"[^A-Za-z0-9+#.-]")
_SENTINEL = "sentinel-of-the-next-turn"
_MAX_PARSED_CHARS = 400_000
"""A longer text is shown in a fence: nobody reads it as prose, and parsing it would take long."""


def render(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    yield f"# {escape(turns.title(session))}\n\n"
    for label, value in turns.facts(session):
        yield f"- {label}: {escape(value)}\n"
    for message in messages:
        yield from _turn(parser, message)
    if session.notes:
        yield "\n## Notes\n"
    for note in session.notes:
        yield f"\n### {escape(turns.one_line(note.heading))}\n\n{contained(parser, turns.readable(note.content), 3)}\n"
    if session.state:
        yield f"\n## State\n\n{fenced(turns.pretty(session.state), 'json')}\n"
    # Emacs does not look for local variables before a form feed.
    yield "\n\f\n"


def _turn(parser: MarkdownIt, message: Message) -> Iterator[str]:
    extra = "".join(f" ({mark})" for mark in turns.marks(message))
    yield f"\n## {escape(turns.speaker(message))} · {turns.moment(message.timestamp)}{extra}\n"
    if answered := turns.called(message):
        yield f"\nResult of call {_code(answered)}\n"
    if thought := turns.thinking(message):
        yield f"\n**Thinking**\n\n{_quoted(thought if len(thought) > _MAX_PARSED_CHARS else lowered(parser, thought, 2))}\n"
    for piece in turns.pieces(message):
        if isinstance(piece, turns.TextBlock):
            text = piece.text
            yield f"\n{fenced(text, 'text') if message.role == 'tool' and text.strip() else contained(parser, text)}\n"
        elif isinstance(piece, turns.Image):
            yield f"\n*\\[image: {escape(turns.one_line(piece.url or piece.label))}\\]*\n"
        else:
            yield f"\n*{escape(piece.kind)}*\n\n{_shown(turns.shown(piece.value))}"
    for name, call_id, arguments in turns.calls(message):
        identity = f" ({_code(call_id)})" if call_id else ""
        yield f"\n**Calls** {_code(name)}{identity}\n\n{_shown(turns.arguments(arguments))}"


def escape(text: str) -> str:
    """One line of plain text, with everything that Markdown would act upon escaped."""
    return _SPECIAL.sub(r"\\\1", text)


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any inside."""
    fence = "`" * max(3, 1 + _longest_run(text, "`"))
    return f"{fence}{_WORD.sub('', language)}\n{text.rstrip(chr(10))}\n{fence}"


def contained(parser: MarkdownIt, text: str, above: int = 2) -> str:
    """A message's Markdown, changed so that it neither swallows what follows nor contains raw HTML. `above`: the level of the
    heading over it, below which its own headings are.
    """
    text = text.strip("\n")
    if not text.strip():
        return ""
    if len(text) > _MAX_PARSED_CHARS:
        return fenced(text, "text")
    tokens = parser.parse(text)
    if any(_has_html(token) for token in tokens):
        text = _without_tags(text, tokens)
        tokens = parser.parse(text)
    if not is_below(tokens, above):
        text = lowered(parser, text, above)
        tokens = parser.parse(text)
    for candidate in (text, _closed(text, tokens)):
        if _ends_by_itself(parser, candidate, above):
            return candidate
    return fenced(text, "text")


def _has_html(token: Token) -> bool:
    return token.type in ("html_block", "html_inline") or any(
        child.type == "html_inline" for child in token.children or []
    )


def _without_tags(text: str, tokens: list[Token]) -> str:
    """The text with `<` before a tag escaped, except in code."""
    lines = text.split("\n")
    code = {n for token in tokens if token.type in ("fence", "code_block") and token.map for n in range(*token.map)}
    return "\n".join(line if number in code else _escape_tags(line) for number, line in enumerate(lines))


def _escape_tags(line: str) -> str:
    out, at = [], 0
    for span in _CODE_SPAN.finditer(line):
        out += [_TAG.sub(r"\\<", line[at : span.start()]), span[0]]
        at = span.end()
    return "".join(out) + _TAG.sub(r"\\<", line[at:])


def _closed(text: str, tokens: list[Token]) -> str:
    """The text with the fence closed that is open at the end, if it belongs to the message itself (not to a list in it)."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.level != 0:
        return text
    return f"{text}\n{last.markup}"


def _ends_by_itself(parser: MarkdownIt, text: str, above: int) -> bool:
    """Return whether a heading after the text is a heading, and no raw HTML and no heading that is too high is left."""
    tokens = parser.parse(f"{text}\n\n## {_SENTINEL}\n")
    if any(_has_html(token) for token in tokens) or len(tokens) < 3:
        return False
    opening, inline, closing = tokens[-3:]
    return (
        opening.type == "heading_open"
        and opening.level == 0
        and inline.content == _SENTINEL
        and closing.type == "heading_close"
        and is_below(tokens[:-3], above)
    )


def _shown(parts: list[turns.ValueText]) -> str:
    """Values in fences, separate ones under their key."""
    blocks = [
        f"{_code(part.label) + ':' + chr(10) * 2 if part.label else ''}{fenced(part.text, part.language)}\n"
        for part in parts
    ]
    return "\n".join(blocks)


def _quoted(text: str) -> str:
    escaped = (_TAG.sub(r"\\<", line) for line in text.strip("\n").split("\n"))
    return "\n".join(f"> {line}".rstrip() for line in escaped)


def _code(text: str) -> str:
    fence = "`" * (1 + _longest_run(text, "`"))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _longest_run(text: str, mark: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(mark)}+", text)), default=0)
