"""gptel's settings in a file, and the bounds of responses, which say who wrote what."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_PROPERTY = re.compile(r"^[ \t]*:GPTEL_([A-Z_]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_VARIABLE = re.compile(r"^[^\n]{0,10}?\bgptel-(?:-)?([a-z-]+):[ \t]*(.*?)[ \t]*(?:-->)?$", re.MULTILINE)
_DRAWER = re.compile(r"\A(?:#[^\n]*\n|[ \t]*\n)*:PROPERTIES:\n(?:[ \t]*:[^\n]*\n)*?:END:\n", re.IGNORECASE)
_LOCALS = re.compile(r"^[^\n]{0,10}Local Variables:", re.MULTILINE)
_TOKEN = re.compile(r"\(|\)|\.(?=\s)|\d+|\"(?:[^\"\\]|\\.)*\"|[^\s()]+")
_MAX_TOKENS = 200_000


class Span(msgspec.Struct, frozen=True):
    """Characters [start, end) of the file, from 0, and their kind: `response`, `tool` or `ignore`."""

    start: int
    end: int
    kind: str
    call_id: str | None = None


def settings(text: str) -> dict[str, str]:
    """gptel's settings: from the first property drawer of an Org file, or the file-local variables."""
    drawer = _DRAWER.match(text)
    if drawer:
        return {key.lower().replace("_", "-"): value for key, value in _PROPERTY.findall(drawer[0])}
    block = _locals_from(text)
    found = {} if block is None else {key: value.strip('"') for key, value in _VARIABLE.findall(text[block:])}
    if found.get("system-message"):
        found["system"] = found.pop("system-message")
    return found or {key.lower().replace("_", "-"): value for key, value in _PROPERTY.findall(text)}


def _locals_from(text: str) -> int | None:
    """Find where the file-local variables begin. Emacs looks in the last 3,000 characters; this looks further back, because
    bounds may be long.
    """
    starts = [match.start() for match in _LOCALS.finditer(text, max(0, len(text) - 64_000))]
    return starts[-1] if starts else None


def spans_of(bounds: str) -> list[Span]:
    """`((response (1 5) (9 20)) (tool (20 30 "id")))`, or the older `((1 . 5) (9 . 20))`; empty for anything else."""
    tokens = _TOKEN.findall(bounds)[:_MAX_TOKENS]
    found: list[Span] = []
    kind = "response"
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token in ("response", "tool", "ignore"):
            kind = token
        elif token.isdigit():
            rest = [t for t in tokens[at + 1 : at + 4] if t != "."]
            if rest and rest[0].isdigit():
                call_id = rest[1].strip('"') if kind == "tool" and len(rest) > 1 and rest[1] not in "()" else None
                found.append(Span(int(token) - 1, int(rest[0]) - 1, kind, call_id))
                while at < len(tokens) and tokens[at] != ")":
                    at += 1
        at += 1
    return sorted((span for span in found if 0 <= span.start < span.end), key=lambda span: (span.start, span.end))


def turns(text: str, spans: list[Span]) -> Iterator[tuple[str, int, int, str | None]]:
    """Role, start, end and call id of every piece of the file, in order."""
    drawer = _DRAWER.match(text)
    at = drawer.end() if drawer else 0
    stop = len(text)
    if not drawer and (block := _locals_from(text)) is not None and "gptel" in text[block:]:
        stop = block
    for span in spans:
        start, end = max(span.start, at), min(span.end, stop)
        if start >= end:
            continue
        yield "user", at, start, None
        if span.kind == "response":
            yield "assistant", start, end, None
        elif span.kind == "tool":
            yield "tool", start, end, span.call_id
        else:
            yield "ignored", start, end, None
        at = end
    if at < stop:
        yield "user", at, stop, None
