"""The sidecar as a file: its values, its JSON, and the two steps of an append. `sidecar.py` explains its meaning."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from sessiond.formats.base import TAIL_BYTES, Problem, Tail, Write
from sessiond.model.message import Message, Note
from sessiond.model.values import Json, JsonObject, normal_timestamp
from sessiond.ready import ready

FOLDER = ".sessiond"
EPOCH = "1970-01-01T00:00:00.000Z"
_MARKER = "store"
"""`store.json` says which store the folder is, and is not a sidecar, even on a file system that ignores case."""
_NAME_CHARS = 200
"""Ids up to this length are used unchanged as the sidecar's name."""


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
KEPT_BYTES = 64 * 1024
"""The most bytes of an append that the sidecar keeps afterwards. More than that are removed when they are durable."""


class Appending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A note of what is about to be, or was last, appended to the main file. Written before the append, so that after a crash it
    is clear whether the append is complete.
    """

    size: int
    """Size of the main file before the append."""
    length: int
    crc: int
    """CRC-32 of the appended bytes."""
    anchor: int
    """CRC-32 of the last TAIL_BYTES before them: shows that the file is still the one that was appended to."""
    through: int
    """Seq up to which the file held every change before."""
    before: int | None = None
    """CRC-32 of all `size` bytes before; None if unknown."""
    data: bytes | None = None
    """The appended bytes: after a crash only a proper prefix of them may be cut."""
    packed: bytes | None = None
    """The same, deflated, if there are many: a nearly full disk need not hold them twice."""
    after: int | None = None
    """CRC-32 of all `size + length` bytes after. Each sum continues the last one, so the cost does not grow with the file."""


class SidecarEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data that is kept for one message besides the main file."""

    id: str
    seq: int
    key: str | None = None
    """Digest of what the main file shows of it; None if that must not hold it, in which case `copy` is all there is."""
    beside: dict[str, Any] = {}
    """Wire fields of the message that the main file does not show."""
    copy: dict[str, Any] | None = None
    """The whole message (wire form), until another writer is known to have had it as it is now."""
    older: list[str] = []
    """Its keys in earlier saves of ours, the newest last."""
    since: int = 0
    """The session's seq when the main file first showed it, if later than the message's own: a reply that was streamed first."""
    near: str | None = None
    """Digest of what an edit most likely leaves unchanged (role and time), for formats without ids."""
    shown: dict[str, str] = {}
    """Field -> digest of what the main file shows of a field whose exact value is in `beside`, until the field is edited."""


class Sidecar(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    id: str
    seq: int
    """The highest seq ever used in the session: by a change, or for a message that an outside edit brought in."""
    through: int = 0
    """Every change up to this seq is in the files. Lower than `seq` if an edit was merged while changes still waited in
    the journal.
    """
    version: int = 1
    mark: Mark | None = None
    was: Mark | None = None
    append: Appending | None = None
    info: dict[str, Any] = {}
    """SessionInfo wire fields that the main file does not show, with createdAt and updatedAt if needed; all of them if
    `shown` is used.
    """
    shown: dict[str, str] = {}
    """SessionInfo field -> digest of what the main file shows of it."""
    older: dict[str, list[str]] = {}
    """The same for earlier saves, the newest last."""
    entries: list[SidecarEntry] = []
    cut: list[SidecarEntry] = []
    """Messages that `was` still shows and the session no longer has, so that changes replayed from the journal find them."""
    notes: list[JsonObject] = []
    state: JsonObject = {}
    saved_at: str | None = None
    main: JsonObject = {}
    """What the format itself must remember about the main file; only the format knows its shape."""


def sidecar_path(local_id: str) -> str:
    if len(local_id) > _NAME_CHARS:
        # Percent-encoding triples the bytes of a Japanese name: the file name would be longer than file systems take.
        local_id = f"{local_id[:100]}-{hashlib.sha256(local_id.encode()).hexdigest()[:32]}"
    if local_id.lower() == _MARKER:
        local_id = f"%{ord(local_id[0]):02X}{local_id[1:]}"  # no id is encoded this way
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
    """The required types of a message's fields in a sidecar, whether it is whole or partial."""

    id: str = ""
    seq: int = 0
    role: str = ""
    content: str | list[Any] = ""
    timestamp: str | None = None
    status: str | None = None


class _InfoTypes(msgspec.Struct, rename="camel"):
    """The required types of the fields in `info`."""

    name: str | None = None
    model: str | None = None
    cwd: str | None = None
    tags: list[str] = []
    archived: bool = False
    summary: str | None = None
    parent: JsonObject | None = None
    metadata: JsonObject = {}
    created_at: str = EPOCH
    updated_at: str = EPOCH


ready(Sidecar, Note, _MessageTypes, _InfoTypes)


def _unsound(side: Sidecar) -> str | None:
    """Say why a sidecar that can be decoded is unusable (somebody changed it by hand, or the disk damaged it), or None."""
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
    """The steps of an append: the sidecar (as it will be, with the intent), then the main file. After a long append the
    sidecar is written once more, without the appended bytes: they are durable by then, so nothing can be torn. `before`:
    the sidecar as it is. `summed`: include the sums of the whole file.
    """
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
    path = sidecar_path(side.id)
    marked = msgspec.structs.replace(side, append=intent, mark=None, was=None)
    steps = [Write(path, encode_sidecar(marked), "replace"), Write(main_path, data, "append")]
    if len(data) > KEPT_BYTES:
        durable = msgspec.structs.replace(intent, data=None, packed=None)
        steps.append(Write(path, encode_sidecar(msgspec.structs.replace(marked, append=durable)), "replace"))
    return steps


def settled_writes(side: Sidecar | None, main: bytes, waiting: Iterable[SidecarEntry] = ()) -> list[Write]:
    """The first step of a rewrite of `main`, if it needs one, so that a crash between the rewrite and the new sidecar
    loses nothing. It settles the append recorded in the sidecar; otherwise the new content would be taken for an append
    that was cut short. It also saves `waiting`, the messages that the new content will not hold.
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
    """Seq up to which the files hold every change before an append. The last append may have got no further than its
    sidecar, which then claims too much. This append must not trust that claim, or a crash in the middle loses both.
    """
    if before is None:
        return 0
    last = before.append
    return before.through if last is None or tail.size >= last.size + last.length else last.through


def sum_at(side: Sidecar | None, size: int) -> int | None:
    """CRC-32 of the main file's first `size` bytes as we wrote them; None if `side` does not know it."""
    if size == 0:
        return 0
    intent = side.append if side else None
    if intent is None:
        return None
    return intent.after if size == intent.size + intent.length else intent.before if size == intent.size else None


def through_of(side: Sidecar | None, main: bytes) -> int:
    """Seq up to which the files of an appended format hold every change, as far as the sidecar knows."""
    if side is None or side.append is None:
        return side.through if side else 0
    intent = side.append
    done = memoryview(main)[intent.size : intent.size + intent.length]
    return side.through if len(done) == intent.length and zlib.crc32(done) == intent.crc else intent.through


_WRITTEN = re.compile(rb"[^\0]+")
"""Data of a grown file that a power failure kept from the disk shows as NULs: at the end, or as whole blocks before it."""


def torn_at(side: Sidecar | None, main: bytes) -> int | None:
    """After a crash: the position where an incomplete append of ours begins, or None. What follows it is ours and also in
    the journal: a proper prefix of the data to append and nothing else, because another program may have written there.
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
    """The bytes of an append. None if the sidecar does not have them: an older version wrote it, or it is damaged."""
    if intent.packed is None:
        return intent.data
    try:
        return zlib.decompress(intent.packed)
    except zlib.error:
        return None
