"""JSON with comments and trailing commas, as editors' settings are: reading it, and adding a member without touching anything else.
No I/O.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""(?P<blank>[\s\ufeff]+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<mark>[{}\[\],:])
      | (?P<word>[^\s{}\[\],:"/]+)""",
    re.VERBOSE | re.DOTALL,
)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\n])*\*/[ \t]*)?(?=\r?\n)")
_INDENT = re.compile(r"\r?\n([ \t]+)\S")
_DEEPEST = 200


class NotJsonc(ValueError):
    """The text is not JSON, even with comments allowed."""


class _Reader:
    """Reads a value, and notes where each object begins: just after its `{`."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise NotJsonc(f"unexpected character at {place}")
            if found.lastgroup != "blank":
                self._tokens.append((found.lastgroup or "", found.group(), found.end()))
            place = found.end()
        self._at = 0
        self.begins: dict[tuple[str, ...], tuple[int, bool]] = {}
        """Path of an object -> where its first member would go, and whether it has members."""

    def document(self) -> object:
        value = self._value((), 0)
        if self._at != len(self._tokens):
            raise NotJsonc("something follows the value")
        return value

    def _next(self) -> tuple[str, str, int]:
        if self._at == len(self._tokens):
            raise NotJsonc("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _value(self, path: tuple[str, ...], depth: int) -> object:
        if depth > _DEEPEST:
            raise NotJsonc("it is nested too deeply")
        kind, text, end = self._next()
        if text == "{" and kind == "mark":
            return self._object(path, end, depth)
        if text == "[" and kind == "mark":
            items: list[object] = []
            while self._peek() != "]":
                items.append(self._value((*path, str(len(items))), depth + 1))
                self._separator("]")
            self._next()
            return items
        if kind == "mark":
            raise NotJsonc(f"unexpected {text}")
        return _scalar(text)

    def _object(self, path: tuple[str, ...], end: int, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        self.begins[path] = (end, self._peek() != "}")
        while self._peek() != "}":
            kind, text, _ = self._next()
            if kind != "string" or self._next()[1] != ":":
                raise NotJsonc("a member needs a name in quotes and a colon")
            key = _scalar(text)
            if key in made:
                raise NotJsonc(f"{text} is there twice")
            made[key] = self._value((*path, key), depth + 1)
            self._separator("}")
        self._next()
        return made

    def _separator(self, close: str) -> None:
        if self._peek() != close and self._next()[1] != ",":
            raise NotJsonc("a comma is missing")


def _scalar(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except ValueError as error:
        raise NotJsonc(str(error)) from None


def loads(text: str) -> Any:
    """The value. NotJson."""
    return _Reader(text).document()


def with_member(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with one more member, first in its object; objects on the way are made. Comments and layout remain.

    NotJson if the text cannot be read, or something on the way is not an object, or the member is there.
    """
    reader = _Reader(text)
    whole = reader.document()
    known = 0
    inner = whole
    for key in path:
        if not isinstance(inner, dict):
            raise NotJsonc(f"{'.'.join(path[:known]) or 'the document'} is not an object")
        if key not in inner:
            break
        inner = inner[key]
        known += 1
    if known == len(path):
        raise NotJsonc(f"{'.'.join(path)} is there already")
    for key in reversed(path[known + 1 :]):
        value = {key: value}
    place, filled = reader.begins[path[:known]]
    return _inserted(text, place, path[known], value, depth=known + 1, filled=filled)


def _inserted(text: str, place: int, key: str, value: object, *, depth: int, filled: bool) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    found = _INDENT.search(text)
    step = found.group(1) if found is not None else "  "
    if rest := _REST_OF_LINE.match(text, place):
        place = rest.end()  # after a comment on the line of the brace
    member = json.dumps({key: value}, indent=step, ensure_ascii=False)[1:-1].strip("\n")
    lines = [step * (depth - 1) + line for line in member.split("\n")]
    added = newline + newline.join(lines) + ("," if filled else "")
    after = text[place:]
    if not filled and not after.lstrip(" \t").startswith(("\n", "\r")):
        added += newline + step * (depth - 1)
    elif filled and not after.startswith(("\n", "\r")):
        added += newline + step * depth
        after = after.lstrip(" \t")
    return text[:place] + added + after
