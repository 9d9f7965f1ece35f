"""The native format: `<id>.jsonl`, append-only JSON Lines. docs/formats/jsonl.md has the grammar and worked bytes.

A file is a header line, then one line per message, each with its id and seq. Later events (names, tags, state, notes, the
end of a streamed reply) add lines, and the last line wins. Only clear, truncate and compaction rewrite the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sessiond.formats.base import Abilities, Decoded, Files, PartialLoad, Tail, Write
from sessiond.formats.checksum import seal_on, sealed, unlike
from sessiond.formats.header import head_of
from sessiond.formats.jsonl_reader import JsonlReader, lines_of
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.partial_load import Passed, PassingCheck, glance, remember
from sessiond.formats.sidecar import (
    Appending,
    Sidecar,
    SidecarEntry,
    append_writes,
    decode_sidecar,
    encode_sidecar,
    settled_writes,
    sidecar_path,
    still_shown,
    through_of,
)
from sessiond.model.changes import (
    Appended,
    Change,
    Cleared,
    Created,
    Extended,
    Finished,
    Noted,
    StateSet,
    Truncated,
    Updated,
)
from sessiond.model.message import Message
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, JsonObject, same_json

name = "jsonl"
rewrites_whole = False

_SUFFIX = ".jsonl"
_BOM = b"\xef\xbb\xbf"
_BLANK_INFO: dict[str, Json] = {key: getattr(Session("", ""), key) for key in UPDATABLE}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    found = [one for one in names if one.endswith(_SUFFIX) and "/" not in one]
    if not found:
        return 0
    ours = sum(1 for one in found[:20] if head(one).removeprefix(_BOM).startswith(b'{"sessiond":'))
    return 95 if ours else 30


def find(names: Iterable[str]) -> dict[str, str]:
    return {
        local_id_of(one[: -len(_SUFFIX)]): one
        for one in names
        if one.endswith(_SUFFIX) and "/" not in one and not one.startswith(".") and len(one) > len(_SUFFIX)
    }


def main_path(local_id: str) -> str:
    return name_of(local_id) + _SUFFIX


def paths(local_id: str) -> list[str]:
    return [main_path(local_id), sidecar_path(local_id)]


def side_files(local_id: str) -> list[str]:
    return [sidecar_path(local_id)]


def decode(local_id: str, files: Files, floor: int = 0) -> Decoded:
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    content = files.get(main_path(local_id), b"")
    reader = JsonlReader(local_id, main_path(local_id), problems)
    reader.read(content)
    decoded = reader.finish(side, floor, through_of(side, content))
    decoded.unlike = unlike(side, content)
    return decoded


# Writing


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    if any(isinstance(change, (Cleared, Truncated)) for change in changes):
        return None
    lines: list[bytes] = []
    if not tail.exists or tail.size == 0:
        created = next((change for change in changes if isinstance(change, Created)), None)
        if created is None:
            return None
        lines.append(_header_line(session.local_id, created.info, created.at, created.seq))
    lines += _change_lines(session, changes)
    side, _ = decode_sidecar("", files.get(sidecar_path(session.local_id)))
    marked = _mark(session.local_id, side, max((change.seq for change in changes), default=0))
    if not lines:
        return [Write(sidecar_path(session.local_id), encode_sidecar(marked), "replace")]
    data = b"\n".join(lines) + b"\n"
    if tail.size and tail.last_byte != b"\n":
        data = b"\n" + data
    return append_writes(marked, main_path(session.local_id), data, tail, side, summed=True)


def _change_lines(session: Session, changes: Sequence[Change]) -> list[bytes]:
    """One line for each message and change. A streamed message gets one line with its newest text, however often it
    grew.
    """
    grown = {change.message_id: change.seq for change in changes if isinstance(change, (Extended, Finished))}
    lines: list[tuple[int, bytes]] = []
    for change in changes:
        match change:
            case Appended():
                lines += [(wire["seq"], _encoder.encode(wire)) for wire in change.messages if wire["id"] not in grown]
            case Updated():
                lines.append((change.seq, _change_line("updated", change, {"fields": change.fields})))
            case Noted():
                lines.append((change.seq, _change_line("note", change, {"note": change.note})))
            case StateSet():
                lines.append((change.seq, _change_line("state", change, {"values": change.values})))
            case _:
                pass
    for message_id, seq in grown.items():
        message = session.message(message_id)
        if message is not None:
            lines.append((seq, _encoder.encode(message.wire())))
    lines.sort(key=lambda line: line[0])
    found = [line for _, line in lines]
    return [*found, _base_line(changes[-1].seq, session.updated_at)] if _needs_base(changes) else found


def _needs_base(changes: Sequence[Change]) -> bool:
    """Return whether the lines of `changes` alone do not show when the session was last updated."""
    for change in changes:
        if isinstance(change, (Extended, Finished)):
            return True
        if isinstance(change, Appended):
            times = [wire["timestamp"] for wire in change.messages]
            if max(times) != times[-1]:
                return True
    return False


def _change_line(kind: str, change: Change, body: JsonObject) -> bytes:
    return _encoder.encode({"change": kind, "seq": change.seq, "at": change.at, **body})


def _base_line(seq: int, updated_at: str) -> bytes:
    return _encoder.encode({"change": "base", "seq": seq, "updatedAt": updated_at})


def _header_line(local_id: str, info: dict[str, Json], at: str, seq: int) -> bytes:
    header: dict[str, Json] = {"sessiond": 1, "id": local_id, "createdAt": info.get("createdAt", at)}
    for key in ("updatedAt", *UPDATABLE):
        if key in info and not same_json(info[key], _BLANK_INFO.get(key)):
            header[key] = info[key]
    if seq:
        header["seq"] = seq
    return _encoder.encode(header)


def _mark(local_id: str, side: Sidecar | None, seq: int) -> Sidecar:
    used = max(seq, side.seq if side else 0)
    through = max(seq, side.through if side else 0)
    entries = side.entries if side else []
    return Sidecar(id=local_id, seq=used, through=through, entries=entries, append=side.append if side else None)


def _whole(local_id: str, seq: int, seal: Appending) -> Sidecar:
    """The sidecar of a file that was written whole."""
    return msgspec.structs.replace(_mark(local_id, None, seq), append=seal)


def encode(session: Session, before: Files) -> list[Write]:
    """The whole file again: the header as it was, one line per message, and every line that was not understood in its
    place among the messages.
    """
    path = main_path(session.local_id)
    old = before.get(path, b"")
    header, strange = _kept_lines(session, old)
    lines = [header or _header_line(session.local_id, {"createdAt": session.created_at}, session.created_at, 0)]
    position = 0
    for after, line in strange:
        lines += [_encoder.encode(m.wire()) for m in session.messages(position, max(after, position))]
        position = max(position, after)
        lines.append(line)
    lines += [_encoder.encode(m.wire()) for m in session.messages(position)]
    lines += _after_messages(session, lines[0])
    bom = _BOM if old.startswith(_BOM) else b""
    content = bom + b"\n".join(lines) + b"\n"
    if content == old:
        return []
    # The main file before the sidecar: its `base` line says what it holds.
    side, _ = decode_sidecar("", before.get(sidecar_path(session.local_id)))
    marked = encode_sidecar(_whole(session.local_id, session.seq, sealed(content, session.seq)))
    return [
        *settled_writes(side, old),
        Write(path, content, "replace"),
        Write(sidecar_path(session.local_id), marked, "replace"),
    ]


def _after_messages(session: Session, header: bytes) -> list[bytes]:
    """Return the lines that a whole file has about the session besides its header and messages."""
    lines = [
        _encoder.encode({"change": "note", "seq": note.seq, "at": note.timestamp, "note": note.wire()})
        for note in session.notes
    ]
    if session.state or session.saved_at:
        at = session.saved_at or session.updated_at
        lines.append(_encoder.encode({"change": "state", "seq": session.seq, "at": at, "values": session.state}))
    said = {**_BLANK_INFO, **msgspec.json.decode(header)}
    fields = {key: getattr(session, key) for key in UPDATABLE if not same_json(getattr(session, key), said[key])}
    if fields:
        at = session.created_at
        lines.append(_encoder.encode({"change": "updated", "seq": session.seq, "at": at, "fields": fields}))
    lines.append(_base_line(session.seq, session.updated_at))
    return lines


class JsonlInParts:
    """Writes the same file as `encode`, for a session whose messages arrive in parts and are never all in memory."""

    def __init__(self, local_id: str, created_at: str) -> None:
        self.beginning = _header_line(local_id, {"createdAt": created_at}, created_at, 0) + b"\n"
        self._seal = sealed(self.beginning, 0)
        self._passed = Passed()

    def messages(self, messages: Sequence[Message]) -> bytes:
        self._passed.add(messages)
        return self._counted(b"".join(_encoder.encode(message.wire()) + b"\n" for message in messages))

    def _counted(self, data: bytes) -> bytes:
        self._seal = seal_on(self._seal, data)
        return data

    def ending(self, session: Session) -> bytes:
        """`session`: everything but its messages, with the seq and time of the last change."""
        return self._counted(b"".join(line + b"\n" for line in _after_messages(session, self.beginning)))

    def beside(self, session: Session, glanced_from: int) -> Sequence[Write]:
        """Writes of other files, after the main one. `glanced_from`: size in bytes from which a file gets a partial load."""
        seal = msgspec.structs.replace(self._seal, through=session.seq)
        marked = encode_sidecar(_whole(session.local_id, session.seq, seal))
        writes = [Write(sidecar_path(session.local_id), marked, "replace")]
        return remember(writes, session, glanced_from, self._passed)

    def read(self, lines: bytes) -> list[Message]:
        """The messages in whole lines of such a file."""
        found = (_decoder.decode(line) for line in lines.split(b"\n") if line)
        return [Message.from_wire(wire) for wire in found if "role" in wire]


def _kept_lines(session: Session, content: bytes) -> tuple[bytes | None, list[tuple[int, bytes]]]:
    """The header line if it is still valid, and each line not understood as (number of messages before it, line)."""
    header: bytes | None = None
    strange: list[tuple[int, bytes]] = []
    reader = JsonlReader(session.local_id, "", [])
    for number, line in lines_of(content):
        for kind, piece in reader.take_each(line, number):
            if kind == "strange":
                strange.append((len(reader.messages) + len(reader.unnumbered), piece))
            elif kind == "header" and header is None and reader.session.created_at == session.created_at:
                header = piece
    return header, strange


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    session, path = decoded.session, sidecar_path(decoded.session.local_id)
    content = before.get(main_path(session.local_id), b"")
    side, _ = decode_sidecar("", before.get(path))
    reader = JsonlReader(session.local_id, "", [])
    reader.read(content)
    found = reader.finish(side, session.seq, 0).session
    ids = [one.id for one in found.messages() if one.id not in reader.messages]
    entries = [
        SidecarEntry(id=message.id, seq=message.seq, key="", beside={"timestamp": message.timestamp})
        for message in (session.message(one) for one in ids)
        if message is not None
    ]
    entries += still_shown(side, session, set(ids))
    seq = max(session.seq, side.seq if side else 0)
    through = through_of(side, content)
    seal = side.append if side and decoded.unlike is not None else sealed(content, through)
    fresh = Sidecar(id=session.local_id, seq=seq, through=through, entries=entries, append=seal)
    new = encode_sidecar(fresh)
    return [] if before.get(path) == new else [Write(path, new, "replace")]


abilities = Abilities(
    says_all=True, partial_load=PartialLoad(glance, remember, PassingCheck), header=head_of, in_parts=JsonlInParts
)
