"""Headings inside a message, below the message's own heading: an outline has the turns, and in each turn what it says."""

from __future__ import annotations

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

_DEEPEST = 6
_OPENING = re.compile(r"([^#]*?)#{1,6}(?=[ \t]|$)")
_LINE_END = re.compile(r"\r\n?|\n")  # as the parser counts lines
_ENDS_IN_MARKS = re.compile(r"(^|[ \t])#+$")


def lowered(parser: MarkdownIt, text: str, above: int) -> str:
    """The text with its highest heading right below the level `above`, and the others as far below that one as they were, up
    to the sixth level. Code, and all lines without a heading, stay as they are.
    """
    tokens = parser.parse(text)
    by = above + 1 - min((_level(token) for token in tokens if token.type == "heading_open"), default=_DEEPEST)
    if by <= 0:
        return text
    lines: list[str | None] = list(_LINE_END.split(text))
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.map is not None:
            first, end = token.map
            marks = "#" * min(_DEEPEST, _level(token) + by)
            line = lines[first] or ""
            if token.markup.startswith("#"):
                opening = _OPENING.match(line)
                lines[first] = line if opening is None else opening[1] + marks + line[opening.end() :]
            else:
                lines[first:end] = [_on_one_line(line, inline.content, marks), *[None] * (end - first - 1)]
    return "\n".join(line for line in lines if line is not None)


def is_below(tokens: list[Token], above: int) -> bool:
    """Return whether no heading is at the level `above`, or over it."""
    return all(_level(token) > above for token in tokens if token.type == "heading_open")


def _level(token: Token) -> int:
    return int(token.tag[1:])


def _on_one_line(line: str, content: str, marks: str) -> str:
    """A heading that was underlined, which only the first two levels can be. `line`: its first one, quote marks included."""
    said = " ".join(part.strip() for part in content.split("\n"))
    before = line[: max(0, line.find(content.split("\n", 1)[0]))]
    closing = f" {marks}" if _ENDS_IN_MARKS.search(said) else ""
    return f"{before}{marks} {said}{closing}"
