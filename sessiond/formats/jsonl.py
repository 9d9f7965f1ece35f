"""The native format: `<id>.jsonl`, append-only JSON Lines. docs/formats/jsonl.md has the grammar and worked bytes.

A file is a header line, then one line a message, each with its id and seq. What happens later (names, tags, state, notes, the end of a
streamed reply) is a further line, of which the last wins. Only clear, truncate and compaction rewrite the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from sessiond.errors import InvalidParams
from sessiond.formats.base import Decoded, Files, Problem, Tail, Write
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.sidecar import (
    Entry,
    Sidecar,
    append_writes,
    decode_sidecar,
    encode_sidecar,
    key_of,
    sidecar_path,
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
from sessiond.model.message import Message, check_message
from sessiond.model.session import Session
from sessiond.model.values import Json, check_json, derived_id, normal_timestamp

name = "jsonl"
rewrites_whole = False
empty_is_session = True

_SUFFIX = ".jsonl"
_EPOCH = "1970-01-01T00:00:00.000Z"
_HEADER_KEYS = ("name", "createdAt", "updatedAt", "model", "cwd", "tags", "archived", "summary", "parent", "metadata")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    found = [one for one in names if one.endswith(_SUFFIX) and "/" not in one]
    if not found:
        return 0
    ours = sum(1 for one in found[:20] if head(one).startswith(b'{"sessiond":'))
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
    path = main_path(local_id)
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    reader = _Reader(local_id, path, problems)
    content = files.get(path, b"")
    reader.read(content)
    if content and not reader.understood:
        problems.append(Problem(path, 1, "holds no line that can be read", fatal=True))
    return reader.finish(side, floor, through_of(side, content))


def header(content: bytes) -> dict[str, Json]:
    """The header line of a file, or nothing where it has none."""
    try:
        value = _decoder.decode(content.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return value if isinstance(value, dict) and "sessiond" in value else {}


class _Reader:
    """Lines in, a session out. Keeps going past whatever it cannot understand."""

    def __init__(self, local_id: str, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self.session = Session(local_id, _EPOCH)
        self.unnumbered: list[dict[str, Json]] = []
        self.held: set[int] = set()
        self.touched: dict[str, int] = {}
        self.base = 0
        self.understood = 0
        self._dated = False

    def read(self, content: bytes) -> None:
        if content.startswith(b"\xef\xbb\xbf"):
            content = content[3:]
        for number, line in enumerate(content.split(b"\n"), 1):
            if not line.strip(b" \t\r"):
                continue
            reason = self._line(line, number)
            if reason is None:
                self.understood += 1
            else:
                self.problems.append(Problem(self.path, number, reason))

    def _line(self, line: bytes, number: int) -> str | None:
        """Take one line; a reason if it could not be understood."""
        try:
            value = _decoder.decode(line)
            if not isinstance(value, dict):
                return "is not a JSON object"
            if "role" in value:
                return self._message(value)
            if "change" in value:
                return self._change(value)
            if "sessiond" in value:
                return self._header(value, number)
        except (msgspec.MsgspecError, RecursionError):
            return "is not valid JSON" if line.strip(b"\0 ") else "holds only NULs"
        except (KeyError, TypeError, ValueError, InvalidParams) as error:
            return f"cannot be used: {error}"
        return "is neither a message nor a change"

    def _header(self, value: dict[str, Json], number: int) -> str | None:
        if value["sessiond"] != 1:
            return f"is of a newer format ({value['sessiond']})"
        self.session.created_at = normal_timestamp(value["createdAt"])
        self.session.updated_at = normal_timestamp(value.get("updatedAt") or value["createdAt"])
        self._dated = True
        self.session.update(value)
        self.session.seq = max(self.session.seq, value.get("seq", 0))
        self.base = max(self.base, value.get("seq", 0))
        if value.get("id") not in (None, self.session.local_id):
            self.problems.append(
                Problem(self.path, number, f"names another id, {value['id']!r}; the file's name counts")
            )
        return None

    def _message(self, value: dict[str, Json]) -> str | None:
        through = value.pop("through", None)
        seq = value.get("seq")
        if not (
            isinstance(seq, int)
            and seq > 0
            and isinstance(value.get("id"), str)
            and isinstance(value.get("timestamp"), str)
        ):
            check_message({key: one for key, one in value.items() if key != "seq"}, "the line")
            check_json(value, "the line")
            self.unnumbered.append(value)
            return None
        if not isinstance(value.get("content"), (str, list)) or not isinstance(value["role"], str):
            check_message(value, "the line")
        message = Message.from_wire(value)
        if isinstance(through, int):
            self.touched[message.id] = max(through, self.touched.get(message.id, 0))
            self.session.seq = max(self.session.seq, through)
        self.held.add(seq)
        known = self.session.message(message.id)
        if known is None:
            self.session.add_message(message)
            self._began(message.timestamp)
        elif known.seq == seq:
            self.session.replace_message(message)
        else:
            return f"repeats the id {message.id!r}"
        return None

    def _change(self, value: dict[str, Json]) -> str | None:
        seq, at = value.get("seq", 0), value.get("at", _EPOCH)
        match value["change"]:
            case "updated":
                self.session.apply(Updated(seq=seq, at=at, fields=value["fields"]))
            case "note":
                self.session.apply(Noted(seq=seq, at=at, note=value["note"]))
            case "state":
                self.session.apply(StateSet(seq=seq, at=at, values=value["values"]))
            case "base":
                self.base = max(self.base, seq)
                self.session.seq = max(self.session.seq, seq)
                self.session.touch(value.get("updatedAt", _EPOCH))
            case other:
                return f"is a change of an unknown kind, {other!r}"
        self.held.add(seq)
        return None

    def _began(self, at: str) -> None:
        if not self._dated:
            self._dated = True
            self.session.created_at = self.session.updated_at = at
        self.session.touch(at)

    def finish(self, side: Sidecar | None, floor: int, saved: int) -> Decoded:
        used = side.seq if side else 0
        renumbered = self._number(side, max(self.session.seq, floor, used))
        self.session.seq = max(self.session.seq, used)
        through = max(self.base, saved)
        while through + 1 in self.held:
            through += 1
        return Decoded(
            session=self.session,
            problems=self.problems,
            through=through,
            beyond=frozenset(seq for seq in self.held if seq > through),
            touched=self.touched,
            renumbered=renumbered,
        )

    def _number(self, side: Sidecar | None, highest: int) -> bool:
        """Give lines that somebody else wrote an id and a seq: the ones they had, else new ones above all others."""
        had = {entry.id: entry.seq for entry in side.entries} if side else {}
        seen: dict[str, int] = {}
        new = False
        last = self.session.updated_at
        for value in self.unnumbered:
            sent_time = value.get("timestamp")
            last = normal_timestamp(sent_time) if isinstance(sent_time, str) else last
            message_id = value.get("id")
            if not isinstance(message_id, str) or self.session.message(message_id):
                key = key_of(value)
                seen[key] = seen.get(key, -1) + 1
                message_id = derived_id((value["role"], key), seen[key])
            seq = had.get(message_id)
            if seq is None:
                highest += 1
                seq, new = highest, True
            rest = {k: v for k, v in value.items() if k not in ("id", "seq", "role", "content", "timestamp", "status")}
            self.session.add_message(
                Message(
                    id=message_id,
                    seq=seq,
                    role=value["role"],
                    content=value["content"],
                    timestamp=last,
                    status=value.get("status"),
                    rest=rest,
                )  # fmt: skip
            )
            self._began(last)
        return new


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    if any(isinstance(change, (Cleared, Truncated)) for change in changes):
        return None
    lines: list[bytes] = []
    if not tail.exists or tail.size == 0:
        created = next((change for change in changes if isinstance(change, Created)), None)
        if created is None:
            return None
        lines.append(_header_line(session.local_id, created.info, created.at, created.seq))
    elif tail.last_byte != b"\n":
        lines.append(b"")
    lines += _change_lines(session, changes)
    main = main_path(session.local_id)
    side, _ = decode_sidecar("", files.get(sidecar_path(session.local_id)))
    last = max((change.seq for change in changes), default=0)
    marked = _mark(session.local_id, side, last)
    if lines == [] or lines == [b""]:
        return [Write(sidecar_path(session.local_id), encode_sidecar(marked), "replace")]
    return append_writes(marked, main, b"\n".join(lines) + b"\n", tail, side)


def _change_lines(session: Session, changes: Sequence[Change]) -> list[bytes]:
    """One line for every message and change; a streamed message has one line with its newest text, however often it grew."""
    grown: dict[str, int] = {}
    for change in changes:
        if isinstance(change, (Extended, Finished)):
            grown[change.message_id] = change.seq
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
    for message_id, through in grown.items():
        message = session.message(message_id)
        if message is not None:
            lines.append((through, _encoder.encode({**message.wire(), "through": through})))
    lines.sort(key=lambda line: line[0])
    return [line for _, line in lines]


def _change_line(kind: str, change: Change, body: dict[str, Any]) -> bytes:
    return _encoder.encode({"change": kind, "seq": change.seq, "at": change.at, **body})


def _header_line(local_id: str, info: dict[str, Json], at: str, seq: int) -> bytes:
    header: dict[str, Json] = {"sessiond": 1, "id": local_id, "createdAt": info.get("createdAt", at)}
    header |= {
        key: info[key] for key in _HEADER_KEYS if key != "createdAt" and info.get(key) not in (None, [], {}, False)
    }
    if seq:
        header["seq"] = seq
    return _encoder.encode(header)


def _mark(local_id: str, side: Sidecar | None, seq: int) -> Sidecar:
    used = max(seq, side.seq if side else 0)
    return Sidecar(
        id=local_id, seq=used, through=seq, entries=side.entries if side else [], append=side.append if side else None
    )


def encode(session: Session, before: Files) -> list[Write]:
    """The whole file anew: the header as it was, every line that was not understood in its place among the messages, one line a message."""
    path = main_path(session.local_id)
    kept_header, strange = _strange_lines(session.local_id, before.get(path, b""))
    head: dict[str, Json] = {"createdAt": session.created_at}
    lines = [kept_header or _header_line(session.local_id, head, session.created_at, 0)]
    position = 0
    for after, line in strange:
        lines += [_encoder.encode(m.wire()) for m in session.messages(position, max(after, position))]
        position = max(position, after)
        lines.append(line)
    lines += [_encoder.encode(m.wire()) for m in session.messages(position)]
    lines += [
        _encoder.encode({"change": "note", "seq": n.seq, "at": n.timestamp, "note": n.wire()}) for n in session.notes
    ]
    if session.state or session.saved_at:
        state = {
            "change": "state",
            "seq": session.seq,
            "at": session.saved_at or session.updated_at,
            "values": session.state,
        }
        lines.append(_encoder.encode(state))
    fields = {key: value for key, value in _fields(session).items() if value != _header_field(lines[0], key)}
    if fields:
        lines.append(
            _encoder.encode({"change": "updated", "seq": session.seq, "at": session.created_at, "fields": fields})
        )
    lines.append(_encoder.encode({"change": "base", "seq": session.seq, "updatedAt": session.updated_at}))
    content = b"\n".join(lines) + b"\n"
    if content == before.get(path):
        return []
    # The main file first: its `base` line says itself what it holds.
    marked = encode_sidecar(_mark(session.local_id, None, session.seq))
    return [Write(path, content, "replace"), Write(sidecar_path(session.local_id), marked, "replace")]


def _fields(session: Session) -> dict[str, Json]:
    return {
        "name": session.name, "model": session.model, "cwd": session.cwd, "tags": session.tags, "archived": session.archived,
        "summary": session.summary, "parent": session.parent, "metadata": session.metadata,
    }  # fmt: skip


def _header_field(header: bytes, key: str) -> Json:
    default: Json = [] if key == "tags" else {} if key == "metadata" else False if key == "archived" else None
    return _decoder.decode(header).get(key, default)


def _strange_lines(local_id: str, content: bytes) -> tuple[bytes | None, list[tuple[int, bytes]]]:
    """The header line, and what was not understood as (number of messages before it, line)."""
    header: bytes | None = None
    strange: list[tuple[int, bytes]] = []
    reader = _Reader(local_id, "", [])
    content = content.removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip(b" \t\r\0"):
            continue
        if reader._line(line, number) is not None:
            strange.append((len(reader.session), line))
        elif header is None and line.startswith(b'{"sessiond"'):
            header = line
    return header, strange


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    session = decoded.session
    side, _ = decode_sidecar("", before.get(sidecar_path(session.local_id)))
    numbered = {key for key in _inline_ids(before.get(main_path(session.local_id), b""))}
    entries = [Entry(id=m.id, seq=m.seq, key="") for m in session.messages() if m.id not in numbered]
    through = through_of(side, before.get(main_path(session.local_id), b""))
    new = Sidecar(id=session.local_id, seq=session.seq, through=through, entries=entries)
    content = encode_sidecar(new)
    path = sidecar_path(session.local_id)
    return [] if before.get(path) == content else [Write(path, content, "replace")]


def _inline_ids(content: bytes) -> Iterable[str]:
    for line in content.split(b"\n"):
        try:
            value = _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("seq"), int) and isinstance(value.get("id"), str):
            yield value["id"]
