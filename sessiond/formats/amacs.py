"""amacs: `<chat>.org` with one `* Tick N` per exchange, and `scratchpad.org` with the notes. docs/formats/amacs.md has
the grammar and worked bytes.

An exchange is a user's message and its answer, written at the end of the file once both are complete; its drawer has
the ids and seqs. Messages outside an exchange, and what belongs to the session as a whole, are in the sidecar, by the
rules of `append_only`. The notes of the scratchpad belong to every chat in the folder: each chat's sidecar numbers those
that the chat did not write itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from sessiond.formats import org, scratchpad, ticks
from sessiond.formats.append_only import (
    append_steps,
    catch_up,
    decode_pieces,
    lay_out,
    numbering,
    rewrite_steps,
    sidecar_for,
    weave_pieces,
    with_copies,
)
from sessiond.formats.base import TAIL_BYTES, Abilities, Decoded, Files, Problem, Tail, Write
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.scratchpad import SeenNote
from sessiond.formats.sidecar import Sidecar, decode_sidecar, encode_sidecar, key_of, sidecar_path
from sessiond.model.changes import Change
from sessiond.model.message import Note
from sessiond.model.session import Session
from sessiond.model.values import JsonObject, derived_id
from sessiond.ready import ready

name = "amacs"
rewrites_whole = True
SCRATCHPAD = "scratchpad.org"
abilities = Abilities(shared_files=(SCRATCHPAD,))

_SUFFIX = ".org"
_CALLED_SO = f"@{SCRATCHPAD}"
"""The file of the chat whose id is `scratchpad`, because `scratchpad.org` itself is not a chat."""
_HAS_TICK = re.compile(rb"^\* Tick[ \t]+\d", re.MULTILINE)


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    if any(_HAS_TICK.search(head(one)) for one in list(find(names).values())[:20]):
        return 95
    if SCRATCHPAD in names and b":THREAD:" in head(SCRATCHPAD):
        return 80
    return 60 if f"agent-chat{_SUFFIX}" in names else 0


def find(names: Iterable[str]) -> dict[str, str]:
    return {
        local_id_of((SCRATCHPAD if one == _CALLED_SO else one)[: -len(_SUFFIX)]): one
        for one in names
        if one.endswith(_SUFFIX) and "/" not in one and not one.startswith(".") and one != SCRATCHPAD
    }


def main_path(local_id: str) -> str:
    file = name_of(local_id) + _SUFFIX
    return _CALLED_SO if file == SCRATCHPAD else file


def paths(local_id: str) -> list[str]:
    return [main_path(local_id), SCRATCHPAD, sidecar_path(local_id)]


def side_files(local_id: str) -> list[str]:
    return [SCRATCHPAD, sidecar_path(local_id)]


def decode(local_id: str, files: Files, floor: int = 0) -> Decoded:
    path, main = main_path(local_id), files.get(main_path(local_id), b"")
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    chat = ticks.parse(main, path, problems)
    if side is None and not chat.ticks and (chat.headings or not org.is_preamble(main)):
        problems.append(Problem(path, 1, "is not a chat: it has no `* Tick N` heading", fatal=True))
    notes = _identified(local_id, files.get(SCRATCHPAD, b""))
    own = [one.seq for one, _, mine in notes if mine and one.seq is not None]
    decoded = decode_pieces(local_id, chat.pieces, main, side, problems, max([floor, *own]))
    _add_notes(decoded, notes, side, max([decoded.session.seq, floor, *own]))
    decoded.beyond |= {seq for seq in own if seq > decoded.through}
    return decoded


# Notes


class _Number(msgspec.Struct):
    """The data that the sidecar keeps about a note that another chat or another program wrote into the scratchpad."""

    id: str
    seq: int
    timestamp: str


class _Memory(msgspec.Struct):
    """The data that the sidecar keeps for this format (`Sidecar.main`)."""

    tick: int = 0
    """The highest tick in the file."""
    alone: list[str] = []
    """Ids of users' messages outside the file that will never get an answer and become an exchange."""
    notes: list[_Number] = []

    @property
    def numbers(self) -> dict[str, _Number]:
        return {one.id: one for one in self.notes}


ready(_Memory)


def _memory(side: Sidecar | None) -> _Memory | None:
    """None if the sidecar has no memory, or an unusable one."""
    try:
        return msgspec.convert(side.main, _Memory) if side and side.main else None
    except msgspec.ValidationError:
        return None


def _numbers(side: Sidecar | None) -> dict[str, _Number]:
    memory = _memory(side)
    return memory.numbers if memory else {}


def _identified(chat: str, pad: bytes) -> list[tuple[SeenNote, str, bool]]:
    """Every note of the scratchpad, its id in `chat`, and whether the chat wrote it itself."""
    seen = scratchpad.notes(scratchpad.parse(pad))
    used = {one.id for one in seen if one.chat == chat and one.id}
    mine: set[str] = set()
    nth: Counter[str] = Counter()
    found: list[tuple[SeenNote, str, bool]] = []
    for one in seen:
        if one.chat == chat and one.id is not None and one.id not in mine:
            mine.add(one.id)
            found.append((one, one.id, True))
            continue
        note_id = one.id if one.id not in used else None
        while note_id is None:
            key = key_of(one.heading, one.thread, one.content)
            candidate = derived_id(("note", key), nth[key])
            nth[key] += 1
            note_id = candidate if candidate not in used else None
        used.add(note_id)
        found.append((one, note_id, False))
    return found


def _add_notes(
    decoded: Decoded, notes: Sequence[tuple[SeenNote, str, bool]], side: Sidecar | None, highest: int
) -> None:
    session = decoded.session
    known = _numbers(side)
    saved = side.seq if side else 0
    found: list[Note] = []
    for one, note_id, mine in notes:
        number = known.get(note_id) if not mine else _Number(note_id, one.seq or 0, one.timestamp or session.updated_at)
        if number is None:
            highest += 1
            number = _Number(note_id, highest, one.timestamp or session.updated_at)
            decoded.renumbered = True
        found.append(
            Note(
                id=note_id,
                seq=number.seq,
                heading=one.heading,
                content=one.content,
                thread=one.thread,
                tick=one.tick,
                timestamp=number.timestamp,
            )
        )
    for note in sorted(found, key=lambda one: one.seq):
        session.add_note(note)
        if note.seq > saved:
            session.touch(note.timestamp)


def _place(
    notes: Sequence[Note], pad: bytes, chat: str, known: Mapping[str, _Number]
) -> tuple[list[Note], list[JsonObject]]:
    """The `notes` that the scratchpad does not have yet, and the numbers of those in it that the chat did not write
    itself.
    """
    by_id = {note.id: note for note in notes}
    placed: set[str] = set()
    numbers: list[_Number] = []
    for one, note_id, mine in _identified(chat, pad):
        note = by_id.get(note_id)
        if mine:
            placed.add(note_id)
        elif note is not None and (one.heading, one.thread, one.content) == (note.heading, note.thread, note.content):
            placed.add(note_id)
            numbers.append(_Number(note_id, note.seq, note.timestamp))
        elif note_id in known:
            numbers.append(known[note_id])
    return [note for note in notes if note.id not in placed], [msgspec.to_builtins(one) for one in numbers]


def _scratchpad_step(old: bytes, missing: Sequence[Note], chat: str, tick: int) -> list[Write]:
    content = scratchpad.add(old, missing, chat, tick) if missing else old
    return [] if content == old else [Write(SCRATCHPAD, content, "replace")]


# Writing: the scratchpad first, because it records by itself what it holds


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    local_id = session.local_id
    side, _ = decode_sidecar("", files.get(sidecar_path(local_id)))
    ahead = catch_up(local_id, side, tail, changes)
    memory = _memory(side)
    if ahead is None or (tail.size > 0 and memory is None):
        return None
    memory = memory or _Memory()
    alone = set(memory.alone)
    exchanges, tick = ticks.pair(ahead.waiting, alone, (), memory.tick)
    written = {message.id for one in exchanges for message in (one.human, one.agent)}
    waiting = [message for message in ahead.waiting if message.id not in written]
    missing, numbers = _place(ahead.session.notes, files.get(SCRATCHPAD, b""), local_id, memory.numbers)
    main = _main(tick, alone & {message.id for message in waiting}, numbers)
    data = ticks.data(exchanges, tail)
    others = [entry for entry in ahead.entries if not entry.copy]
    kept = {entry.id for entry in ahead.entries}
    entries = with_copies(others, side, kept, ticks.parse(data, "", []).pieces, ahead.session)
    after = sidecar_for(ahead.session, entries, waiting, notes=False, main=main)
    steps = append_steps(after, side, main_path(local_id), data, tail, written)
    return [*_scratchpad_step(files.get(SCRATCHPAD, b""), missing, local_id, tick), *steps]


def _main(tick: int, alone: Iterable[str], notes: list[JsonObject]) -> JsonObject:
    return {"tick": tick, "alone": sorted(alone), "notes": notes}


def encode(session: Session, before: Files) -> list[Write]:
    local_id = session.local_id
    path, pad = main_path(local_id), before.get(SCRATCHPAD, b"")
    old = before.get(path)
    side, _ = decode_sidecar("", before.get(sidecar_path(local_id)))
    chat = ticks.parse(old or b"", path, [])
    layout = lay_out(session, chat.pieces, old or b"", side)
    alone: set[str] = set()
    exchanges, tick = ticks.pair(session.messages(), alone, layout.written, ticks.parse(layout.kept, path, []).tick)
    written = {message.id for one in exchanges for message in (one.human, one.agent)}
    waiting = [message for message in layout.missing if message.id not in written]
    missing, numbers = _place(session.notes, pad, local_id, _numbers(side))
    data = ticks.data(exchanges, Tail(exists=True, size=len(layout.kept), end=layout.kept[-TAIL_BYTES:]))
    entries = with_copies(layout.entries, side, layout.written, ticks.parse(data, path, []).pieces, session)
    after = sidecar_for(session, entries, waiting, notes=False, main=_main(tick, alone, numbers))
    return [
        *_scratchpad_step(pad, missing, local_id, tick),
        *rewrite_steps(after, side, path, old, layout.kept, data, written),
    ]


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    session, path = decoded.session, sidecar_path(decoded.session.local_id)
    main = before.get(main_path(session.local_id), b"")
    side, _ = decode_sidecar("", before.get(path))
    chat = ticks.parse(main, "", [])
    alone: set[str] = set()
    ticks.pair(session.messages(), alone, set(weave_pieces(chat.pieces, side, main).ids), 0)
    numbers = _place(session.notes, before.get(SCRATCHPAD, b""), session.local_id, _numbers(side))[1]
    new = numbering(decoded, chat.pieces, main, side, notes=False, remember=_main(chat.tick, alone, numbers))
    content = encode_sidecar(new)
    return [] if before.get(path) == content else [Write(path, content, "replace")]
