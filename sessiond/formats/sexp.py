"""A strict reader of S-expressions, as Emacs Lisp and Common Lisp print them: text in, a tree of positions out.

- It executes and builds nothing: `#.`, `#1=`, `#s(...)`, `#<...>` and every other `#` syntax that is not plain data is
  refused with its position.
- It is iterative: limits, not the stack, bound the depth and size of a form.
- The tree says where things are, not what they are (`sexp_values` does that), so that a writer can change one value and
  leave every other byte as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

import msgspec

from sessiond.limits import MAX_SEXP_DEPTH, MAX_SEXP_NODES


class Dialect(Enum):
    EMACS = "Emacs Lisp"
    COMMON = "Common Lisp"


class Kind(Enum):
    LIST = "list"
    VECTOR = "vector"
    STRING = "string"
    """Has items if Emacs wrote text properties with it: the first item is the string."""
    ATOM = "atom"
    """A symbol, a keyword or a number."""
    CHAR = "character"
    QUOTE = "quote"
    """A prefix (' ` , ,@ #') and its one item."""


class Node(msgspec.Struct, gc=False):
    """The place of a datum: text[start:end]. `tail` is what follows the dot of a dotted list."""

    kind: Kind
    start: int
    end: int
    items: Sequence[Node] = ()
    tail: Node | None = None


class SexpError(ValueError):
    """`position`: index into the text. `line` is 1-based."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.line = line_of(text, position)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def read(text: str, dialect: Dialect, start: int = 0) -> Node:
    """The first form at or after `start`. Raises SexpError. Anything after the form is ignored."""
    return _Reader(text, dialect).read(start)


def skip_blank(text: str, dialect: Dialect, start: int = 0) -> int:
    """Position of the first character that is neither white space nor in a comment. SexpError for an unterminated
    comment.
    """
    return _Reader(text, dialect).skip(start)


class _Frame(msgspec.Struct):
    """An incomplete list, vector, string with properties, or prefix."""

    kind: Kind
    start: int
    closer: str
    """"" for a prefix, which ends with its datum."""
    items: list[Node]
    dot: int = -1
    """Position of a dot, which exactly one datum must follow."""


class _Syntax(msgspec.Struct, frozen=True):
    blank: re.Pattern[str]
    """White space and line comments."""
    atom: re.Pattern[str]
    after_dot: str
    """Characters that, like white space, make the dot before them a dot and not the beginning of a symbol."""
    prefixes: str
    open_bracket: str


_EMACS = _Syntax(
    blank=re.compile(r"(?:[\x00-\x20\xa0]++|;[^\n]*+)*+"),
    atom=re.compile(r"""(?:\\.|[^\x00-\x20\xa0"';()\[\]`,\\#])++""", re.DOTALL),
    after_dot="\"';([#?`,",
    prefixes="'`,",
    open_bracket="[",
)
_COMMON = _Syntax(
    blank=re.compile(r"(?:[ \n\t\f\r]++|;[^\n]*+)*+"),
    atom=re.compile(r"""(?:\\.|\|(?:[^|\\]|\\.)*+\||[^\x00-\x20\x7f"'();`,\\|])++""", re.DOTALL),
    after_dot="\"'();`,",
    prefixes="'`,",
    open_bracket="",
)
_STRING_PAUSE = re.compile(r'["\\]')
_COMMENT_PAUSE = re.compile(r"#\||\|#")
_EMACS_CHAR = re.compile(
    r"\?(?:\\(?:(?:[CMSHAs]-|\^)\\?)*+"
    r"(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]*|[0-7]{1,3}|N\{[^}\n]{1,100}\}|[^\n])|[^\\\x00-\x1f])",
    re.DOTALL,
)
_COMMON_CHAR = re.compile(r"""#\\(?:[^\x00]\b|.)[^\x00-\x20"'();`,]*+""", re.DOTALL)


class _Reader:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.common = dialect is Dialect.COMMON
        self.syntax = _COMMON if self.common else _EMACS
        self.stack: list[_Frame] = []
        self.nodes = 0
        self.done: Node | None = None

    def read(self, position: int) -> Node:
        text, syntax = self.text, self.syntax
        while self.done is None:
            position = self.skip(position)
            char = text[position : position + 1]
            if char == '"':
                position = self._datum(Kind.STRING, position, self._string_end(position))
            elif char == "(" or (char and char == syntax.open_bracket):
                kind, closer = (Kind.LIST, ")") if char == "(" else (Kind.VECTOR, "]")
                position = self._open(kind, position, position + 1, closer)
            elif char == ")" or (char == "]" and not self.common):
                position = self._close(char, position)
            elif not char:
                raise self._at_end(position)
            elif char == "#":
                position = self._hash(position)
            elif char in syntax.prefixes:
                length = 2 if text.startswith(",@", position) else 1
                position = self._open(Kind.QUOTE, position, position + length, "")
            elif char == "." and self._is_dot(position):
                position = self._dot(position)
            elif char == "?" and not self.common:
                position = self._emacs_char(position)
            else:
                position = self._atom(position)
        return self.done

    def skip(self, position: int) -> int:
        match = self.syntax.blank.match(self.text, position)
        position = match.end() if match else position
        while self.common and self.text.startswith("#|", position):
            position = self._comment_end(position)
            match = self.syntax.blank.match(self.text, position)
            position = match.end() if match else position
        return position

    def _comment_end(self, start: int) -> int:
        depth, position = 0, start
        while True:
            match = _COMMENT_PAUSE.search(self.text, position)
            if match is None:
                raise self._error("has an unterminated comment that begins here", start)
            depth += 1 if match[0] == "#|" else -1
            position = match.end()
            if depth == 0:
                return position

    def _string_end(self, start: int) -> int:
        position = start + 1
        while True:
            match = _STRING_PAUSE.search(self.text, position)
            if match is None:
                raise self._error("has an unterminated string that begins here", start)
            if match[0] == '"':
                return match.end()
            position = match.end() + 1

    def _atom(self, start: int) -> int:
        match = self.syntax.atom.match(self.text, start)
        end = match.end() if match else start
        if self.text[end : end + 1] == "\\" or (self.common and self.text[end : end + 1] == "|"):
            raise self._error("has an unterminated symbol that begins here", start)
        if match is None:
            raise self._error(f"has an unexpected {self.text[start]!r}", start)
        return self._datum(Kind.ATOM, start, end)

    def _emacs_char(self, start: int) -> int:
        match = _EMACS_CHAR.match(self.text, start)
        if match is None:
            raise self._error("has an incomplete character literal", start)
        end = match.end()
        if self.syntax.atom.match(self.text, end) and self.text[end] not in "?.":
            raise self._error("has a character literal of more than one character", start)
        return self._datum(Kind.CHAR, start, end)

    def _hash(self, start: int) -> int:
        text = self.text
        after = text[start + 1 : start + 2]
        if after == "'":
            return self._open(Kind.QUOTE, start, start + 2, "")
        if after == "(":
            # In Emacs this is a string with text properties, in Common Lisp a vector.
            return self._open(Kind.VECTOR if self.common else Kind.STRING, start, start + 2, ")")
        if after == "\\" and self.common:
            match = _COMMON_CHAR.match(text, start)
            if match is not None:
                return self._datum(Kind.CHAR, start, match.end())
        if after == "#" and not self.common and not self.syntax.atom.match(text, start + 2):
            return self._datum(Kind.ATOM, start, start + 2)
        raise self._error(
            f"uses the syntax {text[start : start + 2]!r}, which is not accepted: only plain data is read", start
        )

    def _is_dot(self, position: int) -> bool:
        after = self.text[position + 1 : position + 2]
        return after <= " " or after == "\xa0" or after in self.syntax.after_dot

    def _dot(self, position: int) -> int:
        frame = self.stack[-1] if self.stack else None
        if frame is None or frame.kind is not Kind.LIST or not frame.items or frame.dot >= 0:
            raise self._error("has an unexpected dot", position)
        frame.dot = position
        return position + 1

    def _open(self, kind: Kind, start: int, end: int, closer: str) -> int:
        if len(self.stack) >= MAX_SEXP_DEPTH:
            raise self._error(f"is nested more than {MAX_SEXP_DEPTH} levels deep", start)
        self.stack.append(_Frame(kind, start, closer, []))
        return end

    def _close(self, char: str, position: int) -> int:
        frame = self.stack[-1] if self.stack else None
        if frame is None or frame.closer != char:
            raise self._error(f"has a {char!r} that closes nothing", position)
        tail = None
        if frame.dot >= 0:
            if len(frame.items) < 2 or frame.items[-1].start < frame.dot:
                raise self._error("has a dot that nothing follows", frame.dot)
            tail = frame.items.pop()
        if frame.kind is Kind.STRING and not (frame.items and frame.items[0].kind is Kind.STRING):
            raise self._error("uses the syntax '#(', which is accepted only for a string with properties", frame.start)
        self.stack.pop()
        return self._datum(frame.kind, frame.start, position + 1, frame.items, tail)

    def _datum(self, kind: Kind, start: int, end: int, items: Sequence[Node] = (), tail: Node | None = None) -> int:
        """A datum is complete: put it where it belongs. Returns `end`."""
        node = Node(kind, start, end, items, tail)
        while True:
            self.nodes += 1
            if self.nodes > MAX_SEXP_NODES:
                raise self._error(f"has more than {MAX_SEXP_NODES} data items in one form", start)
            if not self.stack:
                self.done = node
                return end
            frame = self.stack[-1]
            if frame.dot >= 0 and frame.items[-1].start > frame.dot:
                raise self._error("has a dot that more than one data item follows", node.start)
            frame.items.append(node)
            if frame.closer:
                return end
            self.stack.pop()
            node = Node(frame.kind, frame.start, end, frame.items)

    def _at_end(self, position: int) -> SexpError:
        if not self.stack:
            return self._error("contains no form", position)
        # Name the innermost string or list: it shows where the cut is, which the outermost list would not.
        frame = self.stack[-1]
        return self._error(f"ends inside the {frame.kind.value} that begins here", frame.start)

    def _error(self, reason: str, position: int) -> SexpError:
        return SexpError(reason, self.text, position)
