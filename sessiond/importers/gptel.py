"""gptel: the user's own Org or Markdown file. Bounds (an Org property, or file-local variables at the end) give the
positions of responses as Emacs character positions, starting at 1. Text outside all bounds is the user's, without a prefix such
as `### ` that waits for it. Text that gptel leaves out of its requests (`ignore`) does not become a message: thoughts belong to
the response after them, other text is in the metadata of the next message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from sessiond.importers.bytestream import utf8
from sessiond.importers.draft import SessionDraft, digest, moment
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.limits import MIB

MAX_FILE_BYTES = 32 * MIB
_PROPERTY = re.compile(r"^[ \t]*:GPTEL_([A-Z_]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_VARIABLE = re.compile(r"^[^\n]{0,10}?\bgptel-(?:-)?([a-z-]+):[ \t]*(.*?)[ \t]*(?:-->)?$", re.MULTILINE)
_DRAWER = re.compile(r"\A(?:#[^\n]*\n|[ \t]*\n)*:PROPERTIES:\n(?:[ \t]*:[^\n]*\n)*?:END:\n", re.IGNORECASE)
_LOCALS = re.compile(r"^[^\n]{0,10}Local Variables:", re.MULTILINE)
_TOKEN = re.compile(r"\(|\)|\.(?=\s)|\d+|\"(?:[^\"\\]|\\.)*\"|[^\s()]+")
_MAX_TOKENS = 200_000
_PREFIX = re.compile(r"[#*]+")
"""What gptel puts where the user is about to write."""
_THOUGHT = re.compile(
    r"\s*(?:#\+begin_reasoning|```+\s*reasoning)[^\n]*\n(.*?)\n?(?:#\+end_reasoning|```+)\s*", re.DOTALL | re.IGNORECASE
)


class Span(msgspec.Struct, frozen=True):
    """Characters [start, end) of the file, from 0, and their kind: `response`, `tool` or `ignore`."""

    start: int
    end: int
    kind: str
    call_id: str | None = None


class Gptel:
    name = "gptel"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith((".org", ".md", ".markdown", ".txt")):
            return 0
        if b":GPTEL_" in head or b"gptel-model:" in head or b"gptel--bounds:" in head:
            return 90
        # File-local variables are at the end.
        return 85 if path.endswith((".md", ".markdown", ".txt")) and b"gptel-" in _tail(path) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        with utf8(path, open_) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            yield SkippedLine(path, None, f"larger than {MAX_FILE_BYTES} bytes")
            return
        text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
        if "\ufffd" in text and "\ufffd".encode() not in raw:
            yield SkippedLine(path, None, "replaced bytes that are not valid UTF-8", taken=True)
        yield from _chat(path, text)


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 8192))
            return file.read(8192)
    except OSError:
        return b""


def _chat(path: str, text: str) -> Iterator[Event]:
    about = _about(text)
    bounds = about.pop("bounds", None)
    spans = _spans(bounds) if bounds else []
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        time = moment(os.stat(path).st_mtime)
    except OSError:
        time = None
    draft = SessionDraft(Gptel.name, path, f"{stem}-{digest(os.path.realpath(path))}", fallback_time=time)
    yield draft.start(
        name=_title(text) or stem,
        model=about.get("model"),
        createdAt=time,
        metadata={"gptel": about} if about else None,
    )
    if bounds and not spans:
        yield SkippedLine(
            path,
            None,
            "the response bounds cannot be read, so the whole file is treated as the user's text",
            taken=True,
        )
    system = about.get("system")
    if system:
        yield from draft.message("system", system.replace("\\n", "\n"))
    ignored: list[str] = []
    for role, start, end, call_id in _turns(text, spans):
        said = text[start:end].strip("\n")
        if role == "ignored":
            ignored.append(said)
        elif said.strip() and not _PREFIX.fullmatch(said.strip()):
            thoughts = [found[1] for one in ignored if role == "assistant" and (found := _THOUGHT.fullmatch(one))]
            rest = [one for one in ignored if role != "assistant" or not _THOUGHT.fullmatch(one)]
            yield from draft.message(
                role,
                said,
                line=text.count("\n", 0, start) + 1,
                metadata={"ignored": rest} if rest else None,
                thinking="\n\n".join(thoughts) or None,
                toolCallId=call_id,
            )
            ignored = []
    yield from draft.end(metadata={"ignored": ignored} if ignored else None)


def _about(text: str) -> dict[str, str]:
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
    """Where the file-local variables begin. Emacs looks in the last 3,000 characters; this looks further back, because
    bounds may be long.
    """
    starts = [match.start() for match in _LOCALS.finditer(text, max(0, len(text) - 64_000))]
    return starts[-1] if starts else None


def _title(text: str) -> str | None:
    match = re.search(r"^#\+title:[ \t]*(\S.*)$", text[:4000], re.MULTILINE | re.IGNORECASE)
    return match[1] if match else None


def _spans(bounds: str) -> list[Span]:
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


def _turns(text: str, spans: list[Span]) -> Iterator[tuple[str, int, int, str | None]]:
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
