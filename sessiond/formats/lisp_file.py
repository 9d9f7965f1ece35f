"""Takes apart a Lisp file that holds one property list, and edits it without touching any byte that need not change.

An edit is (start, end, replacement) in the file's text. Comments, unknown keys and elements that were not understood
are never part of an edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import msgspec

from sessiond.formats.base import Problem
from sessiond.formats.sexp import Dialect, Kind, Node, SexpError, line_of, read, skip_blank
from sessiond.formats.sexp_values import SexpText

Edit: TypeAlias = tuple[int, int, str]
_BOM = "\ufeff"
_VARIABLES_CHARS = 3000
"""How far from the end of a file Emacs looks for local variables."""
_COOKIE = re.compile(r"coding[ \t]*:[ \t]*([\w-]+)", re.IGNORECASE)
_IS_UTF8 = re.compile(r"(?:prefer-|mule-)?utf-8(?:-.*)?", re.IGNORECASE)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_STRING = re.compile(r'\\.|"(?:[^"\\]|\\.)*"', re.DOTALL)
"""A string, or an escaped character outside a string, which may be a quotation mark."""


def _code_point(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class LispFile(msgspec.Struct, frozen=True, dict=True):
    """`form` is the property list; `source` is the text with newlines as Emacs sees them, without a byte order mark."""

    source: SexpText
    form: Node
    bom: bool
    dos: bool
    """Every line ends with CR LF. Emacs reads that as a newline, and so does sessiond."""

    def encoded(self, text: str) -> bytes:
        """The bytes of a file of the same kind with the given text."""
        text = text.replace("\n", "\r\n") if self.dos else text
        return ((_BOM if self.bom else "") + text).encode("utf-8", "surrogateescape")

    @cached_property
    def ascii_only(self) -> bool:
        """Emacs decodes the file with a coding other than UTF-8, because of its cookie or by guessing, so what is written
        into it must mean the same in any coding.
        """
        text = self.source.text
        if self.source.dialect is not Dialect.EMACS:
            return False
        lines = text.split("\n", 2)[:2]
        cookie = next((found for line in lines if "-*-" in line and (found := _COOKIE.search(line))), None)
        variables = text.rfind("Local Variables:", max(0, len(text) - _VARIABLES_CHARS))
        cookie = cookie or (_COOKIE.search(text, variables) if variables >= 0 else None)
        if cookie is not None and not _IS_UTF8.fullmatch(cookie[1]):
            return True
        return not text.isascii() and _NOT_UTF8.search(text) is not None

    def fitting(self, printed: str) -> str | None:
        """A printed value in a form that this file can hold. None if it contains a symbol that the file cannot hold."""
        if printed.isascii() or not self.ascii_only:
            return printed
        fitted = _STRING.sub(lambda match: _NOT_ASCII.sub(_code_point, match[0]), printed)
        return fitted if fitted.isascii() else None

    @property
    def top(self) -> dict[str, Node]:
        return self.source.plist(self.form)


def parse(path: str, raw: bytes, dialect: Dialect) -> tuple[LispFile | None, list[Problem]]:
    """The file, or None with a fatal problem. Never raises."""
    text = raw.decode("utf-8", "surrogateescape")
    bom = text.startswith(_BOM)
    text = text.removeprefix(_BOM)
    dos = dialect is Dialect.EMACS and "\r\n" in text and text.count("\r\n") == text.count("\n")
    text = text.replace("\r\n", "\n") if dos else text
    try:
        form = read(text, dialect)
    except SexpError as error:
        return None, [Problem(path, error.line, error.reason, fatal=True)]
    if form.kind is not Kind.LIST or form.tail is not None or not form.items:
        return None, [Problem(path, line_of(text, form.start), "is not a property list", fatal=True)]
    return LispFile(SexpText(text, dialect), form, bom, dos), _remarks(path, text, dialect, form)


def _remarks(path: str, text: str, dialect: Dialect, form: Node) -> list[Problem]:
    problems = []
    if not text.isascii():
        bad = next((index for index, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
        if bad is not None:
            problems.append(Problem(path, line_of(text, bad), "has bytes that are not valid UTF-8"))
    if len(form.items) % 2:
        problems.append(Problem(path, line_of(text, form.items[-1].start), "has a key without a value"))
    try:
        after = skip_blank(text, dialect, form.end)
    except SexpError as error:
        after = error.position
    if after < len(text):
        problems.append(Problem(path, line_of(text, after), "has text after its form, which readers ignore"))
    return problems


def apply_edits(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """text[start:end] with `edits` applied. They must be inside it and must not overlap."""
    end = len(text) if end is None else end
    parts: list[str] = []
    for from_, to, replacement in sorted(edits):
        parts += (text[start:from_], replacement)
        start = to
    return "".join([*parts, text[start:end]])


def set_key(source: SexpText, node: Node, key: str, printed: str) -> Edit:
    """Set `key` of a property list: in place of its old value, or after the last pair."""
    last: Node | None = None
    first_key: Node | None = None
    for name, key_node, value in source.pairs(node):
        if name == key:
            return (value.start, value.end, printed)
        first_key, last = first_key or key_node, value
    if first_key is None or last is None:
        return (node.start + 1, node.start + 1, f"{key} {printed} " if node.items else f"{key} {printed}")
    one_line = "\n" not in source.text[node.start : node.end]
    blank = " " if one_line else "\n" + " " * column(source.text, first_key.start)
    return (last.end, last.end, f"{blank}{key} {printed}")


def column(text: str, position: int) -> int:
    return position - (text.rfind("\n", 0, position) + 1)


class Placed(msgspec.Struct, frozen=True):
    """One element of the list to be written: its text, and its index if it is an old element."""

    text: str
    index: int | None = None


class _Block(msgspec.Struct):
    """An old element and what belongs to it: `lead` before it, `trail` (a comment) after it on its line, and the
    elements that follow it.
    """

    lead: str
    trail: str
    followers: list[tuple[str, str]] = []
    """Elements that were not understood: (lead and text, trail) for each."""


def arrange(source: SexpText, node: Node, known: Sequence[bool], wanted: Sequence[Placed], indent: int) -> str:
    """The text of a list whose known elements become `wanted`. An unknown element stays after the element that it
    followed.

    `indent`: the column of new elements in an empty list. Known elements missing from `wanted` are removed, but their
    comments stay.
    """
    front, blocks, closing = _blocks(source, node, known)
    out = _Writer(column(source.text, node.items[0].start) if node.items else indent)
    out.followers(front)
    kept = {placed.index for placed in wanted}
    orphans = sorted(index for index in blocks if index not in kept)
    for placed in wanted:
        while orphans and placed.index is not None and orphans[0] < placed.index:
            out.orphan(blocks[orphans.pop(0)])
        out.element(placed.text, None if placed.index is None else blocks[placed.index])
    for index in orphans:
        out.orphan(blocks[index])
    out.put(closing or (out.blank if out.in_comment else ""))
    return f"({text})" if (text := out.text()).strip() else "nil"


def _blocks(
    source: SexpText, node: Node, known: Sequence[bool]
) -> tuple[list[tuple[str, str]], dict[int, _Block], str]:
    text = source.text
    front: list[tuple[str, str]] = []
    blocks: dict[int, _Block] = {}
    followers = front
    lead = text[node.start + 1 : node.items[0].start if node.items else node.end - 1]
    for index, item in enumerate(node.items):
        following = node.items[index + 1].start if index + 1 < len(node.items) else node.end - 1
        gap = text[item.end : following]
        line, newline, rest = gap.partition("\n")
        trail, next_lead = (line, newline + rest) if newline and line.strip() else ("", gap)
        if known[index]:
            blocks[index] = _Block(lead, trail)
            followers = blocks[index].followers
        else:
            followers.append((lead + source.raw(item), trail))
        lead = next_lead
    return front, blocks, lead


class _Writer:
    def __init__(self, indent: int) -> None:
        self.parts: list[str] = []
        self.blank = "\n" + " " * indent
        self.in_comment = False

    def text(self) -> str:
        return "".join(self.parts)

    def put(self, text: str, *, comment: bool = False) -> None:
        if not text:
            return
        if self.in_comment and not text.startswith("\n"):
            text = "\n" + text
        self.parts.append(text)
        self.in_comment = comment

    def element(self, text: str, block: _Block | None) -> None:
        lead = block.lead if block else self.blank
        if not self.parts and not lead.strip():
            lead = ""
        elif self.parts and not lead:
            lead = self.blank
        self.put(lead + text)
        if block:
            self.put(block.trail, comment=True)
            self.followers(block.followers)

    def followers(self, elements: Iterable[tuple[str, str]]) -> None:
        for text, trail in elements:
            self.put(text)
            self.put(trail, comment=True)

    def orphan(self, block: _Block) -> None:
        if block.lead.strip():
            self.put(block.lead.rstrip(" "))
        if block.trail:
            self.put(self.blank + block.trail.strip(), comment=True)
        self.followers(block.followers)
