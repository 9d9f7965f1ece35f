"""gptel: the user's own Org or Markdown file. Bounds (an Org property, or file-local variables at the end) give the
positions of responses as Emacs character positions, starting at 1. Text outside all bounds is the user's, without a prefix such
as `### ` that waits for it. Text that gptel leaves out of its requests (`ignore`) does not become a message: thoughts belong to
the response after them, other text is in the metadata of the next message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.bytestream import utf8
from sessiond.importers.draft import SessionDraft, digest, moment
from sessiond.importers.gptel_bounds import settings, spans_of, turns
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.limits import MIB

MAX_FILE_BYTES = 32 * MIB
_PREFIX = re.compile(r"[#*]+")
"""What gptel puts where the user is about to write."""
_THOUGHT = re.compile(
    r"\s*(?:#\+begin_reasoning|```+\s*reasoning)[^\n]*\n(.*?)\n?(?:#\+end_reasoning|```+)\s*", re.DOTALL | re.IGNORECASE
)


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
    about = settings(text)
    bounds = about.pop("bounds", None)
    spans = spans_of(bounds) if bounds else []
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
        yield from alone(path, "the system prompt", _said_by_system(draft, system))
    ignored: list[str] = []
    for role, start, end, call_id in turns(text, spans):
        said = text[start:end].strip("\n")
        if role == "ignored":
            ignored.append(said)
        elif said.strip() and not _PREFIX.fullmatch(said.strip()):
            before, ignored = ignored, []
            line = text.count("\n", 0, start) + 1
            yield from alone(path, "this turn", _turn(draft, role, said, line, before, call_id), line)
    yield from draft.end(metadata={"ignored": ignored} if ignored else None)


def _turn(
    draft: SessionDraft, role: str, said: str, line: int, ignored: list[str], call_id: str | None
) -> Iterator[Event]:
    """A message. `ignored`: what is in front of it."""
    thoughts = [found[1] for one in ignored if role == "assistant" and (found := _THOUGHT.fullmatch(one))]
    rest = [one for one in ignored if role != "assistant" or not _THOUGHT.fullmatch(one)]
    yield from draft.message(
        role,
        said,
        line=line,
        metadata={"ignored": rest} if rest else None,
        thinking="\n\n".join(thoughts) or None,
        toolCallId=call_id,
    )


def _said_by_system(draft: SessionDraft, text: str) -> Iterator[Event]:
    yield from draft.message("system", text.replace("\\n", "\n"))


def _title(text: str) -> str | None:
    match = re.search(r"^#\+title:[ \t]*(\S.*)$", text[:4000], re.MULTILINE | re.IGNORECASE)
    return match[1] if match else None
