"""The common part of formats whose files only grow at the end (amacs, cortex).

The main file has every finished message whole, with its id and seq, in pieces: a line or an exchange. A piece is written
only once. The sidecar has the rest:

- what belongs to the session as a whole: names, tags, state, notes;
- messages that are not in the main file (an entry without a key): still streaming, or of a kind that the file does not
  show;
- what the main file does not say about a message that it has (an entry with a key): the id and seq of a line that
  another program wrote, and all of a message that changed after it was written (`beside` is then whole, role included).

An append takes two steps, the sidecar first, as described in `sidecar_file`. A message that waited in the sidecar stays
there during both and is removed in a third, so that no crash in between loses it. A rewrite (after clear or truncate)
works the other way round: the main file first, because what is cut must not come back if another program appends in
between. Before the rewrite, any message that the main file is about to lose is put into the sidecar.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from sessiond.formats.base import TAIL_BYTES, Decoded, Problem, Tail, Write
from sessiond.formats.sidecar import (
    EPOCH,
    Seen,
    Sidecar,
    SidecarEntry,
    Woven,
    append_writes,
    encode_sidecar,
    restore_beside,
    settled_writes,
    sidecar_path,
    still_shown,
    through_of,
    weave,
)
from sessiond.model.changes import Appended, Change, Cleared, Created, Extended, Finished, Truncated
from sessiond.model.message import Message
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, same_json
from sessiond.ready import ready

ready(Sidecar)


class Piece(msgspec.Struct):
    """A part of the main file that is kept or cut as a whole, and the messages in it."""

    raw: bytes
    seen: list[Seen] = []


class Ahead(msgspec.Struct):
    """Everything that an update must put somewhere."""

    session: Session
    """The session without the messages of the main file."""
    waiting: list[Message]
    """Messages that the main file does not have, in order of seq."""
    entries: list[SidecarEntry]
    """Entries for messages that it has."""


class Layout(msgspec.Struct):
    """The relation of the main file to a session."""

    kept: bytes
    entries: list[SidecarEntry]
    written: set[str]
    """Ids of the messages in `kept`."""
    missing: list[Message]
    """Messages of the session that are not in `kept`, in order of seq."""


def seen_of(pieces: Iterable[Piece], side: Sidecar | None) -> list[Seen]:
    """All messages of the pieces. A copy of an earlier one (same id or same seq) loses both and counts as another
    message.
    """
    ids: set[str] = set()
    seqs: set[int] = set()
    waiting = {entry.seq: entry.id for entry in (side.entries if side else ()) if entry.key is None}
    for item in (item for piece in pieces for item in piece.seen):
        if item.id in ids or item.seq in seqs or (item.seq in waiting and waiting[item.seq] != item.id):
            item.id = item.seq = None
        if item.id is not None:
            ids.add(item.id)
        if item.seq is not None:
            seqs.add(item.seq)
    return [item for piece in pieces for item in piece.seen]


def weave_pieces(pieces: Sequence[Piece], side: Sidecar | None, main: bytes, floor: int = 0) -> Woven:
    fallback = side.info.get("createdAt", EPOCH) if side else EPOCH
    # A format whose own system only appends keeps no copies, so it has nothing to put back.
    seen = seen_of(pieces, side)
    return weave(seen, side, main, floor=floor, fallback_time=fallback, rewrites_whole=False, puts_back=True)


def decode_pieces(
    local_id: str, pieces: Sequence[Piece], main: bytes, side: Sidecar | None, problems: list[Problem], floor: int
) -> Decoded:
    woven = weave_pieces(pieces, side, main, floor)
    session = Session(local_id, EPOCH)
    for message in woven.messages:
        session.add_message(message)
    if woven.messages:
        session.created_at = session.updated_at = woven.messages[0].timestamp
    restore_beside(session, side)
    known = side.seq if side and "updatedAt" in side.info else 0
    for message in woven.messages:
        if message.seq > known:
            session.touch(message.timestamp)
    inline = {item.seq for piece in pieces for item in piece.seen if item.seq is not None}
    shown = set(woven.ids)
    return Decoded(
        session=session,
        problems=problems,
        through=woven.through,
        beyond=frozenset(seq for seq in inline if seq > woven.through),
        renumbered=woven.renumbered or bool(woven.dropped),
        dropped=woven.dropped,
        # A crash came before the third step of an append: the sidecar still has what the main file now has, too.
        incomplete=woven.put_back
        or any(entry.key is None and entry.id in shown for entry in (side.entries if side else ())),
    )


def catch_up(local_id: str, side: Sidecar | None, tail: Tail, changes: Sequence[Change]) -> Ahead | None:
    """The result of the sidecar and the changes since, without the main file. None if that needs the main file."""
    created = next((change for change in changes if isinstance(change, Created)), None)
    if (side is None and (created is None or tail.size > 0)) or (side is not None and not tail.exists):
        return None
    if any(isinstance(change, (Cleared, Truncated)) for change in changes):
        return None
    session = Session(local_id, created.at if created else EPOCH)
    restore_beside(session, side)
    behind = sorted(
        (entry for entry in (side.entries if side else ()) if _is_whole(entry)), key=lambda entry: entry.seq
    )
    for entry in behind:
        session.add_message(_whole(entry))
    for change in changes:
        if isinstance(change, (Extended, Finished)) and session.message(change.message_id) is None:
            return None  # a message that was written as finished
        if isinstance(change, Appended) and any(session.message(wire["id"]) for wire in change.messages):
            return None  # from a save that a crash cut short
        session.apply(change)
    in_main = {entry.id for entry in (side.entries if side else ()) if entry.key is not None}
    entries = [_renewed(entry, session) for entry in (side.entries if side else ()) if entry.key is not None]
    return Ahead(session, [message for message in session.messages() if message.id not in in_main], entries)


def _is_whole(entry: SidecarEntry) -> bool:
    return entry.key is None or "role" in entry.beside


def _whole(entry: SidecarEntry) -> Message:
    return Message.from_wire({**(entry.copy or entry.beside), "id": entry.id, "seq": entry.seq})


def _renewed(entry: SidecarEntry, session: Session) -> SidecarEntry:
    now = session.message(entry.id)
    return entry if now is None else msgspec.structs.replace(entry, beside=_beside(now))


def _beside(message: Message) -> dict[str, Json]:
    whole = {key: value for key, value in message.wire().items() if key not in ("id", "seq")}
    return {**whole, "status": message.status}  # even None, if the main file shows another one


def lay_out(session: Session, pieces: Sequence[Piece], main: bytes, side: Sidecar | None) -> Layout:
    """Decide which pieces stay as they are. A piece is cut as a whole if it shows a message that is gone or that the sidecar
    cannot correct.
    """
    ids = iter(weave_pieces(pieces, side, main).ids)
    kept: list[bytes] = []
    entries: list[SidecarEntry] = []
    written: set[str] = set()
    for piece in pieces:
        there = [(item, session.message(message_id)) for item, message_id in zip(piece.seen, ids, strict=False)]
        if not all(now is not None and now.id not in written and _correctable(item, now) for item, now in there):
            continue
        kept.append(piece.raw)
        for item, now in there:
            assert now is not None
            written.add(now.id)
            entry = _entry(item, now)
            entries += [entry] if entry else []
    return Layout(
        b"".join(kept), entries, written, [message for message in session.messages() if message.id not in written]
    )


def _correctable(item: Seen, now: Message) -> bool:
    """The sidecar can replace keys, but not remove them."""
    return item.rest.keys() <= now.rest.keys()


def _entry(item: Seen, now: Message) -> SidecarEntry | None:
    """Return what the sidecar must keep for a message that the main file shows as `item`, or None."""
    shown = Message(
        id=now.id,
        seq=now.seq,
        role=item.role,
        content=item.content,
        timestamp=item.timestamp or now.timestamp,
        status=item.status,
        rest=item.rest,
    )
    if not same_json(shown.wire(), now.wire()):
        beside: dict[str, Json] = _beside(now)
    elif item.timestamp is None:
        beside = {"timestamp": now.timestamp}
    elif (item.id, item.seq) == (now.id, now.seq):
        return None
    else:
        beside = {}
    return SidecarEntry(id=now.id, seq=now.seq, key=item.key, beside=beside, near=item.near)


def sidecar_for(
    session: Session,
    entries: Iterable[SidecarEntry],
    waiting: Iterable[Message],
    *,
    notes: bool = True,
    main: Mapping[str, object] | None = None,
) -> Sidecar:
    """`session`: supplies the info, notes and state. `notes` False: another file has the notes. `main`: what the format
    itself must know.
    """
    blank = Session("", "")
    info = {
        key: getattr(session, key) for key in UPDATABLE if not same_json(getattr(session, key), getattr(blank, key))
    }
    unwritten = [SidecarEntry(id=message.id, seq=message.seq, copy=message.wire()) for message in waiting]
    return Sidecar(
        id=session.local_id,
        seq=session.seq,
        through=session.seq,
        info={"createdAt": session.created_at, "updatedAt": session.updated_at, **info},
        entries=sorted([*entries, *unwritten], key=lambda entry: entry.seq),
        notes=[note.wire() for note in session.notes] if notes else [],
        state=dict(session.state),
        saved_at=session.saved_at,
        main=dict(main or {}),
    )


_COPIES_BYTES = 32 * 1024
"""The limit for copies in the sidecar, so that an append to a chat that nobody else touches always costs the same."""


def with_copies(
    entries: Sequence[SidecarEntry],
    before: Sidecar | None,
    kept: Container[str],
    pieces: Iterable[Piece],
    session: Session,
) -> list[SidecarEntry]:
    """`entries` with whole copies of the newest messages that only the daemon has had: those being written now
    (`pieces`), and the earlier ones that are still in the main file (`kept`). The format's own system may hold the file
    in memory without them and write that version.
    """
    there = {entry.id for entry in entries}
    copies = [one for one in (before.entries if before else ()) if one.key is not None and one.copy and one.id in kept]
    for piece in pieces:
        since = max(
            (item.seq or 0 for item in piece.seen), default=0
        )  # if only half of a piece is missing, that is an edit
        for item in piece.seen:
            now = session.message(item.id) if item.id is not None else None
            if now is not None:
                copies.append(
                    SidecarEntry(id=now.id, seq=now.seq, key=item.key, near=item.near, copy=now.wire(), since=since)
                )
    found: list[SidecarEntry] = []
    room = _COPIES_BYTES
    for entry in reversed(copies):
        room -= len(msgspec.json.encode(entry.copy))
        if room < 0:
            break
        if entry.id not in there:
            found.append(entry)
    return [*entries, *found]


def append_steps(
    side: Sidecar, before: Sidecar | None, main_path: str, data: bytes, tail: Tail, written: Iterable[str]
) -> list[Write]:
    """The steps that save `side` and append `data`, which contains the messages `written`."""
    path = sidecar_path(side.id)
    if not data and tail.exists:
        last = before.append if before else None
        return [Write(path, encode_sidecar(msgspec.structs.replace(side, append=last)), "replace")]
    moved = set(written)
    waited = [entry for entry in (before.entries if before else ()) if entry.key is None and entry.id in moved]
    others = [entry for entry in side.entries if entry.id not in {one.id for one in waited}]
    careful = msgspec.structs.replace(side, entries=sorted([*others, *waited], key=lambda entry: entry.seq))
    steps = append_writes(careful, main_path, data, tail, before)
    if not waited:
        return steps
    intent = msgspec.json.decode(steps[-1 if len(steps) > 2 else 0].data, type=Sidecar).append
    return [*steps[:2], Write(path, encode_sidecar(msgspec.structs.replace(side, append=intent)), "replace")]


def rewrite_steps(
    side: Sidecar,
    before: Sidecar | None,
    main_path: str,
    old: bytes | None,
    kept: bytes,
    data: bytes,
    written: Iterable[str],
) -> list[Write]:
    """The steps that replace `old` in the main file with `kept` and `data`, and save `side`. Files that are already right
    get no step.
    """
    if old is not None and kept == old:
        if data:
            return append_steps(
                side, before, main_path, data, Tail(exists=True, size=len(old), end=old[-TAIL_BYTES:]), written
            )
        sound = before is not None and before.through == through_of(before, old)
        content = encode_sidecar(msgspec.structs.replace(side, append=before.append if before and sound else None))
        return (
            []
            if before is not None and content == encode_sidecar(before)
            else [Write(sidecar_path(side.id), content, "replace")]
        )
    if old is None:  # a sidecar without its main file counts for nothing, but the main file needs its sidecar
        return [Write(sidecar_path(side.id), encode_sidecar(side), "replace"), Write(main_path, kept + data, "replace")]
    return [
        *settled_writes(before, old, (entry for entry in side.entries if entry.key is None)),
        Write(main_path, kept + data, "replace"),
        Write(sidecar_path(side.id), encode_sidecar(side), "replace"),
    ]


def numbering(
    decoded: Decoded,
    pieces: Sequence[Piece],
    main: bytes,
    side: Sidecar | None,
    *,
    notes: bool = True,
    remember: Mapping[str, object] | None = None,
) -> Sidecar:
    """The sidecar that makes the ids and seqs of `decoded.session` durable. It does not claim that the files hold more
    than before.
    """
    session = decoded.session
    woven = weave_pieces(pieces, side, main)
    entries: list[SidecarEntry] = []
    for item, message_id in zip(seen_of(pieces, side), woven.ids, strict=True):
        now = session.message(message_id)
        entry = _entry(item, now) if now is not None else None
        entries += [entry] if entry else []
    shown = set(woven.ids)
    entries += [entry for entry in (side.entries if side else ()) if entry.key is None and entry.id not in shown]
    entries += still_shown(side, session, shown)
    back = {message.id for message in woven.messages}
    entries += [  # put back, and not in the main file yet
        entry
        for entry in (side.entries if side else ())
        if entry.key is not None and entry.copy and entry.id not in shown and entry.id in back
    ]
    new = sidecar_for(session, entries, (), notes=notes, main=remember)
    return msgspec.structs.replace(new, seq=max(session.seq, side.seq if side else 0), through=through_of(side, main))
