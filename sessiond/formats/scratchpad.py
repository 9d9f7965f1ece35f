"""amacs' notes: `scratchpad.org`, one `* Heading` per subject, shared by all chats of a folder. docs/formats/amacs.md has
the grammar.

The drawer of a heading has `THREAD` and `TICK`, as amacs reads them. One heading may have several notes;
`SESSIOND_NOTES` lists them, one JSON object per note, in the order of their texts. A text that is not listed was written
by another program and is a separate note.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sessiond.formats import org
from sessiond.formats.foreign_message import usable_id, usable_seq, usable_time
from sessiond.model.message import Note
from sessiond.model.values import Json

_LIST = "SESSIOND_NOTES"
_NULL = "null"
_TICK = re.compile(r"-?\d{1,15}")


class ShownNote(msgspec.Struct):
    """One note's text as shown under a heading, and what our list says about it (None: another program wrote it)."""

    text: str
    listed: dict[str, Any] | None

    def listing(self) -> dict[str, Json]:
        return {**(self.listed or {}), "size": len(self.text), "sha": _digest(self.text)}


class Heading(msgspec.Struct):
    title: str
    thread: str | None
    tick: int | None
    items: list[ShownNote]
    raw: bytes
    """Heading, drawer, body and everything below it."""
    section: org.OrgSection


class Pad(msgspec.Struct):
    preamble: bytes
    headings: list[Heading]
    crlf: bool

    def raw(self) -> bytes:
        return self.preamble + b"".join(heading.raw for heading in self.headings)


class SeenNote(msgspec.Struct, frozen=True):
    """A note as the file shows it. `chat`, `id` and `seq` are None if another program wrote it."""

    heading: str
    thread: str | None
    tick: int | None
    content: str
    chat: str | None = None
    id: str | None = None
    seq: int | None = None
    timestamp: str | None = None


def parse(content: bytes) -> Pad:
    """Never fails. Anything but a level 1 heading is preamble, or belongs to the heading before it."""
    pad = Pad(b"", [], org.is_crlf(content))
    for section in org.sections(content):
        if section.level == 1:
            pad.headings.append(Heading(section.title, None, None, [], section.raw, section))
        elif pad.headings:
            pad.headings[-1].raw += section.raw
            section_before = pad.headings[-1].section
            section_before.body += section.raw
        else:
            pad.preamble += section.raw
    for heading in pad.headings:
        _read(heading, crlf=pad.crlf)
    return pad


def _read(heading: Heading, *, crlf: bool) -> None:
    properties = heading.section.properties
    thread, tick = properties.get("THREAD", _NULL), properties.get("TICK", "")
    heading.thread = None if thread in (_NULL, "nil", "") else thread
    heading.tick = int(tick) if _TICK.fullmatch(tick) else None
    listed = _listed(properties.get(_LIST))
    heading.items = _items(org.body_text(heading.section.body, crlf=crlf), listed)
    for one in listed:
        # What a title or a property cannot express exactly. It is the same for all notes under a heading.
        heading.title = one["heading"] if isinstance(one.get("heading"), str) else heading.title
        heading.thread = one["thread"] if isinstance(one.get("thread"), str) else heading.thread


def _listed(value: str | None) -> list[dict[str, Any]]:
    try:
        found = msgspec.json.decode(value or "[]", type=list[dict[str, Any]])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    return [one for one in found if type(one.get("size")) is int and one["size"] >= 0]


def _items(text: str, listed: Sequence[dict[str, Any]]) -> list[ShownNote]:
    """Split a heading's text into its notes. The first edited note gets all the text after it, too."""
    items: list[ShownNote] = []
    position = 0
    for one in listed:
        while items and text.startswith("\n", position):
            position += 1
        end = position + one["size"]
        part = text[position:end]
        if _digest(part) != one.get("sha") or (part and text[end : end + 1] not in ("", "\n")):
            if text[position:].strip():
                items.append(ShownNote(text[position:], one))
            return items
        items.append(ShownNote(part, one))
        position = end
    rest = text[position:].lstrip("\n")
    if rest.strip() or not (items or listed):
        items.append(ShownNote(rest, None))
    return items


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def notes(pad: Pad) -> list[SeenNote]:
    """All notes in the order of the file."""
    return [_note(heading, item) for heading in pad.headings for item in heading.items]


def _note(heading: Heading, item: ShownNote) -> SeenNote:
    one = item.listed or {}
    note_id, seq = usable_id(one.get("id")), usable_seq(one.get("seq"))
    if note_id is None or seq is None or not isinstance(one.get("chat"), str):
        return SeenNote(heading.title, heading.thread, heading.tick, item.text)
    tick = one["tick"] if type(one.get("tick")) is int else None
    return SeenNote(
        heading.title,
        heading.thread,
        tick,
        org.restore(item.text, one),
        chat=one["chat"],
        id=note_id,
        seq=seq,
        timestamp=usable_time(one.get("timestamp")),
    )


def add(content: bytes, new: Iterable[Note], chat: str, tick: int) -> bytes:
    """The file with notes of `chat` added: each under its heading (same title, same thread), or under a new one at the
    end.

    `tick`: used for a new heading whose note has no tick.
    """
    pad = parse(content)
    for note in new:
        heading = next((one for one in pad.headings if one.title == note.heading and one.thread == note.thread), None)
        shown = org.show(note.content)
        item = ShownNote(shown.text, _listing(note, chat, shown.extra))
        if heading is None:
            _close(pad)
            heading = _make(note, item, tick, crlf=pad.crlf)
            pad.headings.append(heading)
        else:
            _extend(heading, item, crlf=pad.crlf)
    return pad.raw()


def _listing(note: Note, chat: str, extra: dict[str, Json]) -> dict[str, Json]:
    one: dict[str, Json] = {"id": note.id, "chat": chat, "seq": note.seq, "timestamp": note.timestamp, **extra}
    if note.tick is not None:
        one["tick"] = note.tick
    if org.one_line(note.heading) != note.heading or not note.heading:
        one["heading"] = note.heading
    if (note.thread is not None and _shown_thread(note.thread) != note.thread) or note.thread in (_NULL, "nil", ""):
        one["thread"] = note.thread
    return one


def _shown_thread(thread: str | None) -> str:
    return (org.one_line(thread) or "-") if thread is not None else _NULL


def _make(note: Note, item: ShownNote, tick: int, *, crlf: bool) -> Heading:
    properties = {
        "THREAD": _shown_thread(note.thread),
        "TICK": str(tick if note.tick is None else note.tick),
        _LIST: org.property_json([item.listing()]),
    }
    text = f"* {org.one_line(note.heading) or 'Notes'}\n{org.drawer(properties)}{item.text}\n"
    raw = org.line_ends(text, crlf=crlf)
    return Heading(note.heading, note.thread, note.tick, [item], raw, org.sections(raw)[1])


def _close(pad: Pad) -> None:
    """Make the file end with a blank line, so that a heading may follow."""
    end = b"\r\n" if pad.crlf else b"\n"
    whole = pad.raw()
    if not whole.strip(b"\xef\xbb\xbf \t\r\n"):
        return
    missing = b"" if whole.endswith(end + end) else end if whole.endswith(b"\n") else end + end
    if pad.headings:
        pad.headings[-1].raw += missing
    else:
        pad.preamble += missing


def _extend(heading: Heading, item: ShownNote, *, crlf: bool) -> None:
    """Put a note's text at the end of a heading, and list it."""
    end = b"\r\n" if crlf else b"\n"
    raw = heading.raw
    filled = raw.rstrip(b" \t\r\n")
    after = raw[len(filled) :].removeprefix(end) or b""
    heading.items.append(item)
    section = heading.section
    listing = f":{_LIST}: {org.property_json([one.listing() for one in heading.items])}\n"
    drawer = _with_listing(raw, section, listing, crlf=crlf)
    first = section.drawer[1] if section.drawer else (raw.find(b"\n") + 1 or len(raw))
    body = filled[first:]
    if not section.drawer and not raw.endswith(b"\n") and b"\n" not in raw:
        drawer = raw + end + drawer[len(raw) :]
    heading.raw = drawer + body + (end + end if body else b"") + org.line_ends(item.text, crlf=crlf) + end + after
    heading.section = org.sections(heading.raw)[1]
    heading.section.body = heading.raw[heading.section.drawer[1] :] if heading.section.drawer else heading.section.body


def _with_listing(raw: bytes, section: org.OrgSection, listing: str, *, crlf: bool) -> bytes:
    """The heading and its drawer with the list in it. Every other property stays as it is."""
    line = org.line_ends(listing, crlf=crlf)
    if section.drawer is None:
        first = raw.find(b"\n") + 1 or len(raw)
        return raw[:first] + org.line_ends(":PROPERTIES:\n", crlf=crlf) + line + org.line_ends(":END:\n", crlf=crlf)
    start, end = section.drawer
    lines = raw[start:end].splitlines(keepends=True)
    kept = [one for one in lines if not one.lstrip().upper().startswith(f":{_LIST}:".encode())]
    return raw[:start] + b"".join([*kept[:-1], line, *kept[-1:]])
