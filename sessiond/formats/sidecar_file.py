"""The sidecar as a file: its values, its JSON, and the two steps of an append. `sidecar.py` tells what it means."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from sessiond.formats.base import TAIL_BYTES, Problem, Tail, Write
from sessiond.model.message import Message, Note
from sessiond.model.values import Json, normal_timestamp
from sessiond.ready import ready

FOLDER = ".sessiond"
EPOCH = "1970-01-01T00:00:00.000Z"
_MARKER = "store"
"""`store.json` tells which store the folder is, and is not a sidecar, also where upper and lower case are one."""
_NAME_CHARS = 200
"""Ids up to this length are the sidecar's name as they are."""


class Mark(msgspec.Struct, frozen=True):
    """One version of a main file; every change up to `seq` is in it."""

    seq: int
    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes, seq: int) -> Mark:
        return cls(seq=seq, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    def fits(self, content: bytes) -> bool:
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256


_PLAIN_BYTES = 4096


class Appending(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is about to be, or was last, appended to the main file. Written before the append, so that after a crash it
    is known whether the append happened whole."""

    size: int
    """Of the main file before."""
    length: int
    crc: int
    """CRC-32 of the appended bytes."""
    anchor: int
    """CRC-32 of the last TAIL_BYTES before them: the file is still the one that was appended to."""
    through: int
    """What the file held before."""
    before: int | None = None
    """CRC-32 of all `size` bytes before; None where it is not known."""
    data: bytes | None = None
    """The appended bytes: after a crash nothing but a true prefix of them may be cut."""
    packed: bytes | None = None
    """The same, deflated, where they are many: a disk that is nearly full need not hold them twice."""
    after: int | None = None
    """CRC-32 of all `size + length` bytes after. Each is made from the last one, so a file of any length costs the same."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one message beside the main file."""

    id: str
    seq: int
    key: str | None = None
    """Digest of what the main file shows of it; None where that must not hold it, and `copy` is all there is."""
    beside: dict[str, Any] = {}
    """Wire fields of the message that the main file does not show."""
    copy: dict[str, Any] | None = None
    """The whole message (wire form), as long as no writer but the daemon is known to have had it as it is now."""
    older: list[str] = []
    """Keys of it in earlier saves of ours, the newest last."""
    since: int = 0
    """The session's seq when the main file first showed it, where that was later than its own: a reply that was streamed first."""
    near: str | None = None
    """Digest of what an edit of it most likely leaves as it is (role and time), for formats without ids."""
    shown: dict[str, str] = {}
    """Field -> digest of what the main file shows of a field that `beside` has exactly: an edit of the field ends that.
    """


class Sidecar(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    id: str
    seq: int
    """The highest seq ever used in the session: by a change, or for a message that somebody else's edit brought in."""
    through: int = 0
    """Every change up to this seq is in the files. Below `seq` where an edit was merged while changes still waited in
    the journal."""
    version: int = 1
    mark: Mark | None = None
    was: Mark | None = None
    append: Appending | None = None
    info: dict[str, Any] = {}
    """SessionInfo wire fields that the main file does not show, createdAt and updatedAt among them where needed; all
    where `shown` is used."""
    shown: dict[str, str] = {}
    """SessionInfo field -> digest of what the main file shows of it."""
    older: dict[str, list[str]] = {}
    """The same of earlier saves, the newest last."""
    entries: list[Entry] = []
    cut: list[Entry] = []
    """Of messages that `was` still shows and the session no longer has: with them a change that the journal replays finds them."""
    notes: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    saved_at: str | None = None
    main: dict[str, Any] = {}
    """What the format itself must remember of the main file; only it knows the shape."""


def sidecar_path(local_id: str) -> str:
    if len(local_id) > _NAME_CHARS:
        # Percent-encoding triples the bytes of a Japanese name: the file name would be longer than file systems take.
        local_id = f"{local_id[:100]}-{hashlib.sha256(local_id.encode()).hexdigest()[:32]}"
    if local_id.lower() == _MARKER:
        local_id = f"%{ord(local_id[0]):02X}{local_id[1:]}"  # no id is written so
    return f"{FOLDER}/{local_id}.json"


def key_of(*parts: Json) -> str:
    """Digest of what a main file shows of a message: equal parts, equal key."""
    raw = msgspec.json.encode(parts, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:20]


_decoder = msgspec.json.Decoder(Sidecar)


def decode_sidecar(path: str, raw: bytes | None) -> tuple[Sidecar | None, list[Problem]]:
    """A damaged sidecar counts as absent, with a warning: the session's own file is still the truth."""
    if raw is None:
        return None, []
    try:
        side = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return None, [Problem(path, None, f"cannot be read, so it is ignored: {error}")]
    if side.version > 1:
        reason = f"has a newer version ({side.version}); update sessiond to use it"
        return None, [Problem(path, None, reason, fatal=True)]
    why = _unsound(side)
    return (None, [Problem(path, None, f"cannot be used, so it is ignored: {why}")]) if why else (side, [])


class _MessageTypes(msgspec.Struct):
    """What must hold of a message's fields in a sidecar, whole or in part."""

    id: str = ""
    seq: int = 0
    role: str = ""
    content: str | list[Any] = ""
    timestamp: str | None = None
    status: str | None = None


class _InfoTypes(msgspec.Struct, rename="camel"):
    """What must hold of the fields in `info`."""

    name: str | None = None
    model: str | None = None
    cwd: str | None = None
    tags: list[str] = []
    archived: bool = False
    summary: str | None = None
    parent: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    created_at: str = EPOCH
    updated_at: str = EPOCH


ready(Sidecar, Note, _MessageTypes, _InfoTypes)


def _unsound(side: Sidecar) -> str | None:
    """Why a sidecar that can be decoded cannot be worked with: somebody changed it by hand, or the disk did."""
    try:
        for note in side.notes:
            normal_timestamp(msgspec.convert(note, Note).timestamp)
        info = msgspec.convert(side.info, _InfoTypes)
        normal_timestamp(info.created_at), normal_timestamp(info.updated_at)
        for entry in [*side.entries, *side.cut]:
            beside = msgspec.convert(entry.beside, _MessageTypes)
            if beside.timestamp is not None:
                normal_timestamp(beside.timestamp)
            if entry.copy is not None:
                msgspec.convert(entry.copy, _MessageTypes)
                normal_timestamp(entry.copy["timestamp"])
                Message.from_wire(entry.copy)
    except (msgspec.ValidationError, ValueError, KeyError, TypeError, AttributeError) as error:
        return str(error)
    return None


def encode_sidecar(side: Sidecar) -> bytes:
    return msgspec.json.format(msgspec.json.encode(side, order="deterministic"), indent=1) + b"\n"


def append_writes(
    side: Sidecar, main_path: str, data: bytes, tail: Tail, before: Sidecar | None, *, summed: bool = False
) -> list[Write]:
    """The two steps of an append: the sidecar (as it will be, with the intent), then the main file. `before`: the
    sidecar as it is. `summed`: with the sums of the whole file."""
    whole = sum_at(before, tail.size) if summed else None
    intent = Appending(
        size=tail.size,
        length=len(data),
        crc=zlib.crc32(data),
        anchor=zlib.crc32(tail.end),
        through=_held(before, tail),
        before=whole,
        after=None if whole is None else zlib.crc32(data, whole),
        data=data if len(data) <= _PLAIN_BYTES else None,
        packed=None if len(data) <= _PLAIN_BYTES else zlib.compress(data, 1),
    )
    marked = msgspec.structs.replace(side, append=intent, mark=None, was=None)
    return [Write(sidecar_path(side.id), encode_sidecar(marked), "replace"), Write(main_path, data, "append")]


def settled_writes(side: Sidecar | None, main: bytes, waiting: Iterable[Entry] = ()) -> list[Write]:
    """The first step of a rewrite of `main`, if it needs one, so that a crash after the rewrite and before the new sidecar
    loses nothing. An append that the sidecar tells of is settled, or the new content would be taken for one that was cut
    short. Messages that the new content will not hold, `waiting`, are in the sidecar before they go.
    """
    if side is None:
        return []
    there = {entry.id for entry in side.entries if entry.key is None}
    moved = {entry.id: entry for entry in waiting if entry.id not in there}
    if side.append is None and not moved:
        return []
    entries = [*(entry for entry in side.entries if entry.id not in moved), *moved.values()]
    entries.sort(key=lambda entry: entry.seq)
    settled = msgspec.structs.replace(side, append=None, through=through_of(side, main), entries=entries)
    return [Write(sidecar_path(side.id), encode_sidecar(settled), "replace")]


def _held(before: Sidecar | None, tail: Tail) -> int:
    """What the files hold before an append. The last one may have come no further than its sidecar, which then claims
    too much: this append must not take that claim for true, or a crash in the middle of it loses both.
    """
    if before is None:
        return 0
    last = before.append
    return before.through if last is None or tail.size >= last.size + last.length else last.through


def sum_at(side: Sidecar | None, size: int) -> int | None:
    """CRC-32 of the main file's first `size` bytes as we wrote them, where `side` knows it."""
    if size == 0:
        return 0
    intent = side.append if side else None
    if intent is None:
        return None
    return intent.after if size == intent.size + intent.length else intent.before if size == intent.size else None


def through_of(side: Sidecar | None, main: bytes) -> int:
    """Up to which change the files of an appended format hold everything, as far as the sidecar knows."""
    if side is None or side.append is None:
        return side.through if side else 0
    intent = side.append
    done = memoryview(main)[intent.size : intent.size + intent.length]
    return side.through if len(done) == intent.length and zlib.crc32(done) == intent.crc else intent.through


_WRITTEN = re.compile(rb"[^\0]+")
"""What a power failure kept from the disk of a file that had grown shows as NULs: at the end, or whole blocks before it."""


def torn_at(side: Sidecar | None, main: bytes) -> int | None:
    """After a crash: where an append of ours was cut short, or None. What follows this position is ours, incomplete, and in
    the journal: a true prefix of what was to be appended, and nothing else. Somebody else may have written there.
    """
    intent = side.append if side else None
    data = None if intent is None else _appended(intent)
    if intent is None or data is None or len(main) <= intent.size:
        return None
    if zlib.crc32(main[max(0, intent.size - TAIL_BYTES) : intent.size]) != intent.anchor:
        return None
    tail = main[intent.size :]
    ours = len(tail) <= intent.length and all(data.startswith(run[0], run.start()) for run in _WRITTEN.finditer(tail))
    return intent.size if ours and tail != data else None


def _appended(intent: Appending) -> bytes | None:
    """None where the sidecar does not say: an older version wrote it, or it is damaged."""
    if intent.packed is None:
        return intent.data
    try:
        return zlib.decompress(intent.packed)
    except zlib.error:
        return None
