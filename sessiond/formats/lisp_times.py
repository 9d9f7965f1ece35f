"""Converts times between the forms of Emacs Lisp and Common Lisp and RFC 3339 with milliseconds."""

from __future__ import annotations

import math

from sessiond.formats.sexp import Kind, Node
from sessiond.formats.sexp_values import SexpText
from sessiond.model.values import epoch_ms, normal_timestamp, timestamp

_UNIX_IN_UNIVERSAL = 2_208_988_800
"""Seconds from 1900 to 1970."""


def emacs_time(source: SexpText, node: Node) -> str | None:
    """(HIGH LOW USEC PSEC), also without its last one or two, (TICKS . HZ), seconds, or RFC 3339 text; None for anything
    else.

    Anything finer than a millisecond is cut off.
    """
    text = source.string(node)
    if text is not None:
        return _normal(text)
    number = source.number(node)
    if number is not None:
        return _stamp(math.floor(number * 1000))
    if node.kind is not Kind.LIST or not node.items:
        return None
    parts = [source.number(item) for item in (*node.items, *([node.tail] if node.tail else []))]
    if not all(isinstance(part, int) for part in parts):
        return None
    whole = [part for part in parts if isinstance(part, int)]
    if node.tail is not None:
        return _stamp(whole[0] * 1000 // whole[1]) if len(whole) == 2 and whole[1] > 0 else None
    if not 2 <= len(whole) <= 4:
        return None
    high, low, micros, _ = [*whole, 0, 0][:4]
    return _stamp(((high << 16) + low) * 1000 + micros // 1000)


def print_emacs_time(at: str) -> str:
    """(HIGH LOW USEC PSEC), exact to the millisecond."""
    seconds, millis = divmod(epoch_ms(at), 1000)
    return f"({seconds >> 16} {seconds & 0xFFFF} {millis * 1000} 0)"


def universal_time(source: SexpText, node: Node) -> str | None:
    """Seconds since 1900, UTC."""
    number = source.number(node)
    if number is None:
        text = source.string(node)
        return None if text is None else _normal(text)
    return _stamp(math.floor((number - _UNIX_IN_UNIVERSAL) * 1000))


def print_universal_time(at: str) -> str:
    """Whole seconds. A time before 1900 becomes 0."""
    return str(max(0, epoch_ms(at) // 1000 + _UNIX_IN_UNIVERSAL))


def _stamp(ms: int) -> str | None:
    try:
        return timestamp(ms)
    except OverflowError:
        return None


def _normal(text: str) -> str | None:
    try:
        return normal_timestamp(text)
    except (ValueError, OverflowError):
        return None
