"""Reads the native format: lines in, a session out. It skips whatever it cannot understand and goes on.

A message's place is its seq. A line without one, which another program wrote, comes after all others, and the sidecar remembers
the seq that it is given. Without a sidecar (a copy of the file, a clone, another name) it had a seq between those around it, and
gets one of these again if they are free. So does a line whose seq belongs to another message: git joined what two machines had written. What
follows it in the file was written on the same machine after it, so it keeps that order, and does not take its own seq either,
unless that is higher than what the lines before it were given: then the daemon wrote it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec

from sessiond.errors import InvalidParams
from sessiond.formats.base import Decoded, Problem
from sessiond.formats.foreign_message import (
    HEAD,
    usable_fields,
    usable_id,
    usable_rest,
    usable_seq,
    usable_status,
    usable_time,
)
from sessiond.formats.sidecar import EPOCH, Sidecar, SidecarEntry, key_of
from sessiond.model.changes import Noted, StateSet, Updated
from sessiond.model.message import STATUSES, Message, Note
from sessiond.model.session import Session
from sessiond.model.values import Json, check_json, derived_id, normal_timestamp
from sessiond.ready import ready

Kind: TypeAlias = Literal["header", "message", "change", "mark", "strange"]
_BOM = b"\xef\xbb\xbf"
_decoder = msgspec.json.Decoder()
ready(Note)
_CONFLICT = (b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> ")
_PLAIN = {"id", "seq", "role", "content", "timestamp"}


def lines_of(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Non-blank lines with their numbers, from 1. One at a time: splitting a hundred megabytes at once would block every
    other thread.
    """
    start, number = len(_BOM) if content.startswith(_BOM) else 0, 0
    while start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            end = len(content)
        number += 1
        line = content[start:end]
        if line.strip(b" \t\r"):
            yield number, line
        start = end + 1


class Unnumbered(msgspec.Struct):
    """A message whose place is not its own seq. `message.id` is "" if the line has no id; its seq is 0."""

    message: Message
    key: str
    timed: bool
    """Whether the line has a time."""
    own: int = 0
    """The seq in the line, where that may count."""
    behind: int = 0
    """The seq of the message before it, if that has one in the file."""


class _NewerFormat(Exception):
    """The header is of a version that only a later sessiond reads."""


class JsonlReader:
    def __init__(self, local_id: str, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self.session = Session(local_id, EPOCH)
        """Without its messages until `finish`."""
        self.messages: dict[str, Message] = {}
        """Those with a seq in the file."""
        self.unnumbered: list[Unnumbered] = []
        self.base = 0
        self._seqs: dict[int, str] = {}
        self._displaced: dict[str, Unnumbered] = {}
        """Messages from the first line on whose seq was taken."""
        self._held: set[int] = set()
        self._newest = 0
        """The seq of the last message that began."""
        self._conflict = False
        self._understood = 0
        self._dated = False
        self._last_time = EPOCH

    def read(self, content: bytes) -> None:
        """Read all lines of a file."""
        for number, line in lines_of(content):
            for _ in self.take_each(line, number):
                pass
        if not self._understood and content.strip(b"\xef\xbb\xbf \t\r\n"):
            self.problems.append(Problem(self.path, 1, "has no line that can be read", fatal=True))

    def take_each(self, line: bytes, number: int) -> Iterator[tuple[Kind, bytes]]:
        """Read one line, or the pieces of one on which records follow a stub or each other."""
        known = len(self.problems)
        kind = self.take(line, number)
        pieces = _pieces_of(line) if kind == "strange" else iter(())
        first, second = next(pieces, None), next(pieces, None)
        if first is None or second is None:
            yield kind, line
            return
        del self.problems[known:]
        for piece, _ in chain((first, second), pieces):
            yield self.take(piece, number), piece

    def take(self, line: bytes, number: int) -> Kind:
        """Read one line. A strange line adds a problem and has no other effect."""
        try:
            kind = self._take(_decoder.decode(line), number)
        except _NewerFormat as error:
            self.problems.append(Problem(self.path, number, str(error), fatal=True, intact=True))
            return "strange"
        except msgspec.ValidationError as error:  # it is a DecodeError, too
            reason = f"cannot be used: {error}"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if line.startswith(_CONFLICT):
                self._of_a_conflict(number)
                return "mark"
            reason = "is not valid JSON" if line.strip(b"\0 \t\r") else "contains only NUL bytes"
        except KeyError as error:
            reason = f"cannot be used: it has no {error}"
        except (InvalidParams, TypeError, ValueError, AttributeError) as error:
            reason = f"cannot be used: {error}"
        else:
            self._understood += 1
            return kind
        self.problems.append(Problem(self.path, number, reason))
        return "strange"

    def _take(self, value: Json, number: int) -> Kind:
        if not isinstance(value, dict):
            raise TypeError("it is not a JSON object")
        if "role" in value:
            self._message(value)
            return "message"
        if "change" in value:
            self._change(value)
            return "change"
        if "sessiond" in value:
            self._header(value, number)
            return "header"
        raise ValueError("it is neither a message nor a change")

    def _header(self, value: dict[str, Json], number: int) -> None:
        if value["sessiond"] != 1:
            raise _NewerFormat(f"has a newer format ({value['sessiond']}); update sessiond")
        created = _time("createdAt", value["createdAt"])
        updated = _time("updatedAt", value.get("updatedAt") or created)
        fields = usable_fields(value)
        seq = _seq(value)
        self.session.created_at, self.session.updated_at = created, updated
        self._dated, self._last_time = True, created
        self.session.update(fields)
        self.session.seq = max(self.session.seq, seq)
        self.base = max(self.base, seq)
        if value.get("id") not in (None, self.session.local_id):
            reason = f"names another id, {value['id']!r}; the id from the file name is used"
            self.problems.append(Problem(self.path, number, reason, intact=True))

    def _message(self, value: dict[str, Any]) -> None:
        role, content = value["role"], value.get("content")
        if not isinstance(role, str) or not role:
            raise ValueError("it has no role")
        if not isinstance(content, (str, list)):
            raise ValueError("its content is neither text nor a list of blocks")
        seq, message_id, when = usable_seq(value.get("seq")), usable_id(value.get("id")), value.get("timestamp")
        time = usable_time(when) if isinstance(when, str) else None
        if not seq or message_id is None or time is None:
            self._foreign(value, message_id)
            return
        known = self.messages.get(message_id)
        if known is None and (self._displaced or self._seqs.get(seq, message_id) != message_id):
            self._displace(value, message_id, seq)
            return
        if known is not None and known.seq != seq:
            raise ValueError(f"it repeats the id {message_id!r}")
        if value.keys() == _PLAIN:  # as in nearly all lines
            message = Message(id=message_id, seq=seq, role=role, content=content, timestamp=time)
        else:
            rest = {key: one for key, one in value.items() if key not in HEAD}
            status = value.get("status") if value.get("status") in STATUSES else None
            message = Message(
                id=message_id, seq=seq, role=role, content=content, timestamp=time, status=status, rest=rest
            )
        self.messages[message_id] = message
        self._seqs[seq] = message_id
        self._held.add(seq)
        if known is None:
            self._newest = seq
            self.touch(time)

    def _displace(self, value: dict[str, Any], message_id: str, seq: int) -> None:
        """A message that cannot have its seq, or one behind such a message."""
        before = self._displaced.get(message_id)
        self._foreign(value, message_id)
        new = self._displaced[message_id] = self.unnumbered[-1]
        new.own = seq
        if before is not None and before.own == seq:  # a later line of the same message
            self.unnumbered.pop()
            self.unnumbered[self.unnumbered.index(before)] = new

    def _of_a_conflict(self, number: int) -> None:
        if not self._conflict:
            self._conflict = True
            reason = "is in the middle of a git conflict; both sides of it are read"
            self.problems.append(Problem(self.path, number, reason, intact=True))

    def _foreign(self, value: dict[str, Any], message_id: str | None) -> None:
        check_json(value, "the line")
        time = usable_time(value.get("timestamp"))
        key = key_of({name: one for name, one in value.items() if name != "seq"})
        message = Message(
            id=message_id or "",
            seq=0,
            role=value["role"],
            content=value["content"],
            timestamp=time or self._last_time,
            status=usable_status(value.get("status")),
            rest=usable_rest(value),
        )
        self.unnumbered.append(Unnumbered(message, key, time is not None, behind=self._newest))
        self.touch(message.timestamp)

    def touch(self, time: str) -> None:
        if not self._dated:
            self._dated = True
            self.session.created_at = self.session.updated_at = time
        self.session.touch(time)
        self._last_time = time

    def _change(self, value: dict[str, Json]) -> None:
        seq, at = _seq(value), _time("at", value.get("at", EPOCH))
        match value["change"]:
            case "updated":
                self.session.apply(Updated(seq=seq, at=at, fields=usable_fields(value["fields"])))
            case "note":
                note = msgspec.convert(value["note"], Note)
                wire = {**note.wire(), "timestamp": _time("timestamp", note.timestamp)}
                self.session.apply(Noted(seq=seq, at=at, note=wire))
            case "state":
                if not isinstance(value["values"], dict):
                    raise TypeError("its values are not an object")
                self.session.apply(StateSet(seq=seq, at=at, values=value["values"]))
            case "base":
                self.base = max(self.base, seq)
                self.session.seq = max(self.session.seq, seq)
                self.session.updated_at = _time("updatedAt", value["updatedAt"])
                self._dated = True
            case other:
                raise ValueError(f"it is a change of unknown kind {other!r}")
        self._held.add(seq)

    def finish(self, side: Sidecar | None, floor: int, saved: int) -> Decoded:
        """`saved`: seq up to which, according to the sidecar, the file holds every change."""
        used = side.seq if side else 0
        highest = max(self.session.seq, floor, used, *self._seqs, 0)
        had = {entry.id: entry for entry in side.entries} if side else {}
        numbered, new = self._number(had, highest, alone=side is None)
        for message in sorted([*self.messages.values(), *numbered], key=lambda message: message.seq):
            self.session.add_message(message)
        self.session.seq = max(self.session.seq, used)
        through = max(self.base, saved)
        while through + 1 in self._held:
            through += 1
        return Decoded(
            session=self.session,
            problems=self.problems,
            through=through,
            beyond=frozenset(seq for seq in self._held if seq > through),
            renumbered=new,
        )

    def _number(self, had: dict[str, SidecarEntry], highest: int, *, alone: bool) -> tuple[list[Message], bool]:
        """Give lines that another program wrote an id and a seq: those they had before, or new ones above all others.

        `alone`: without a sidecar. What is behind one of our lines then comes next after it, as long as there is room.
        """
        used = set(self.messages)
        found: list[Message] = []
        nth: Counter[str] = Counter()
        new, last, filled, end = False, 0, False, max(self._seqs, default=0)
        for one in self.unnumbered:
            message_id = one.message.id
            while not message_id or message_id in used:
                message_id = derived_id((one.message.role, one.key), nth[one.key])
                nth[one.key] += 1
            used.add(message_id)
            entry = had.get(message_id)
            if entry is not None:
                seq = entry.seq
            elif alone and not one.own and (after := max(one.behind, last) + 1) < end and after not in self._held:
                seq, filled = after, True
                self._held.add(seq)
            elif one.own > last and not new and one.own not in self._seqs:
                seq = one.own
                self._held.add(seq)
            else:
                seq, new = highest + 1, True
            highest, last = max(highest, seq), max(last, seq)
            time = entry.beside.get("timestamp") if entry and not one.timed else None
            changed = {"id": message_id, "seq": seq}
            found.append(msgspec.structs.replace(one.message, timestamp=time or one.message.timestamp, **changed))
        return found, new or filled


def _time(key: str, value: Any) -> str:
    try:
        return normal_timestamp(value)
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"its `{key}` is not a valid time") from None


def _seq(value: dict[str, Json]) -> int:
    seq = value.get("seq", 0)
    if type(seq) is not int or not 0 <= seq < 2**53:
        raise ValueError("its seq is not a whole number from 0 to 2^53 - 1")
    return seq


def _pieces_of(line: bytes) -> Iterator[tuple[bytes, bool]]:
    from sessiond.formats.shared_line import pieces_of  # it needs `json`, which no daemon should load before it answers

    return pieces_of(line)
