"""Prints values so that the dialect's own reader restores them exactly, laid out so that small changes make small diffs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sessiond.formats.sexp import Dialect

_WIDTH = 100
_EMACS_ESCAPES = {'"': '\\"', "\\": "\\\\", "\x1b": "\\e", "\r": "\\r", "\f": "\\f", "\v": "\\v", "\x7f": "\\d"}
_EMACS_SPECIAL = re.compile('["\\\\\x00-\x08\x0b-\x1f\x7f]')
_LOCAL_VARIABLES = re.compile(r"(local) (variables:)", re.IGNORECASE)
_SYMBOL_SPECIAL = re.compile("[\x00-\x20\x7f\u00a0\"';()\\[\\]#`,\\\\?]")
_NUMBER_LIKE = re.compile(r"[+-]?[0-9.].*", re.DOTALL)
_PLAIN_COMMON = re.compile(r"[a-z*!$%&<=>?_~][a-z0-9*+!$%&/<=>?^_~.-]*")

_WORDS: dict[Dialect, dict[bool | None, str]] = {
    Dialect.EMACS: {True: "t", False: ":false", None: "nil"},
    Dialect.COMMON: {True: "t", False: "nil", None: ":null"},
}


def string(text: str, dialect: Dialect) -> str:
    """A string literal. Newlines stay as they are. For Emacs, other control characters are escaped, because ESC, NUL and
    CR make it guess another encoding; so is "Local Variables:", which it would evaluate.
    """
    if dialect is Dialect.COMMON:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = _EMACS_SPECIAL.sub(_emacs_escape, text)
    return '"' + _LOCAL_VARIABLES.sub(r"\1\\s\2", text) + '"'


def _emacs_escape(match: re.Match[str]) -> str:
    return _EMACS_ESCAPES.get(match[0]) or f"\\{ord(match[0]):03o}"


def symbol(name: str, dialect: Dialect) -> str:
    """A symbol, or a keyword if it begins with a colon. In Common Lisp a lower-case name is written as such and reads as
    upper case.
    """
    if dialect is Dialect.COMMON:
        colon, bare = (":", name[1:]) if name.startswith(":") else ("", name)
        if _PLAIN_COMMON.fullmatch(bare):
            return colon + bare
        folded = bare.upper() if bare == bare.lower() and bare.upper().lower() == bare else bare
        return f"{colon}|" + folded.replace("\\", "\\\\").replace("|", "\\|") + "|"
    if not name:
        return "##"
    escaped = _SYMBOL_SPECIAL.sub(lambda match: "\\" + match[0], name)
    return "\\" + escaped if _NUMBER_LIKE.fullmatch(escaped) else escaped


def number(value: float, dialect: Dialect) -> str:
    if isinstance(value, int) or dialect is Dialect.EMACS:
        return repr(value)
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}d{int(exponent or 0)}"


def form(items: Sequence[str], indent: int) -> str:
    """A list of printed items: on one line if they fit, otherwise one per line. `indent`: the column of its
    parenthesis.
    """
    flat = " ".join(items)
    if len(flat) + indent < _WIDTH and "\n" not in flat:
        return f"({flat})"
    return "(" + ("\n" + " " * (indent + 1)).join(items) + ")"


def json_form(value: Any, dialect: Dialect, indent: int = 0) -> str:
    """A JSON value as data that `SexpText.json` reads back, except empty lists and objects, which become nil, and an array
    that looks like an object.

    Emacs: property lists and vectors. Common Lisp: association lists with string keys, and lists.
    """
    match value:
        case None | True | False:
            return _WORDS[dialect][value]
        case str():
            return string(value, dialect)
        case int() | float():
            return number(value, dialect)
        case {} if not value:
            return "nil"
        case dict() if dialect is Dialect.EMACS:
            return form(
                [f"{symbol(':' + key, dialect)} {json_form(one, dialect, indent + 2)}" for key, one in value.items()],
                indent,
            )
        case dict():
            pairs = [f"({string(key, dialect)} . {json_form(one, dialect, indent + 3)})" for key, one in value.items()]
            return form(pairs, indent)
    inner = form([json_form(one, dialect, indent + 1) for one in value], indent)
    return f"[{inner[1:-1]}]" if dialect is Dialect.EMACS else inner
