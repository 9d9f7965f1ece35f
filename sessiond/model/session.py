"""A session in memory: the result of its changes.

It belongs to its owner (`service.OpenSession`); only that calls `apply`, all others read pages of frozen messages. `apply`
is deterministic: the same changes in the same order give the same session, on any machine and after any crash.

Theory of operation
-------------------
messages  In the order of their seqs; `_by_id` has the position of each. A message is frozen: another version of it is another object
          in its place, so a page that somebody holds stays as it was.
absent    The oldest messages are missing. After a partial load (docs/decisions/0017) only their number is known, and their file is
          still to be checked; after `shorten` (docs/decisions/0079) their ids are known as well, and the file was. Whatever needs
          one of them raises Absent before it has changed anything; the owner has the whole file read and asks again.
streams   The text of a streamed message is kept in pieces and joined when somebody reads it. To join it with each piece would cost
          the square of its length.
the log   The last changes, for clients that missed some (`changes_since`). It may forget: an append that it lacks follows from the
          messages, and for anything else the client is told to read the session again.

What must never happen: two messages have the same id; a seq goes down.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from sessiond.limits import DEFAULT
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
from sessiond.model.message import Message, Note
from sessiond.model.values import Json, JsonObject, same_json

_MESSAGE_BYTES = 700
"""About how many bytes a message takes in memory in addition to its text."""
_NOT_USED = 1 << 62
"""Beyond the position of any message."""
_BLOCK_CHARS = 400
"""Assumed size of a content block, which is not examined."""
UNTITLED = "untitled"
"""In the metadata of an imported session: the tool has given it no title, so its name is this, what the person said first."""
UPDATABLE = ("name", "model", "tags", "archived", "summary", "metadata", "cwd", "parent")


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The facts that a list shows of a session, without its path and what only the running daemon knows (attached, dirty)."""

    session_id: str
    name: str | None = None
    created_at: str
    updated_at: str
    model: str | None = None
    message_count: int = 0
    seq: int = 0
    cwd: str | None = None
    tags: list[str] = []
    archived: bool = False
    summary: str | None = None
    parent: JsonObject | None = None
    metadata: JsonObject = {}


class Absent(Exception):
    """A requested message is not in memory yet. Have the rest read (`Stored.read_rest`), then try again.

    `message_ids`: the requested ids, if it was by id. The session may not have such a message at all.
    """

    def __init__(self, *message_ids: str) -> None:
        super().__init__("a message that is not in memory yet")
        self.message_ids = message_ids


class AbsentIds:
    """The ids of absent messages, eight bytes for each. About once in 10^13 it has one that none of them has: then a file is read
    for nothing.
    """

    __slots__ = ("_hashes", "order")

    def __init__(self, message_ids: Iterable[str], more: AbsentIds | None = None) -> None:
        """`message_ids`: in the order of the messages. `more`: those of messages before them, which were absent before. Takes as
        long as sorting them: call it on a thread.
        """
        hashes = set[int]()
        self.order = 0
        """As `in_order` makes it of all of them, from the oldest on."""
        if more is not None:
            hashes.update(more._hashes)
            self.order = more.order
        for message_id in message_ids:
            if (one := hash(message_id)) not in hashes:
                hashes.add(one)
                self.order = in_order(self.order, message_id)
        self._hashes: array[int] = array("q", sorted(hashes))

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, message_id: str) -> bool:
        sought = hash(message_id)
        position = bisect_left(self._hashes, sought)
        return position < len(self._hashes) and self._hashes[position] == sought


def in_order(order: int, message_id: str) -> int:
    """Return a value that stands for the same ids as `order`, in the same order, and this one behind them; 0 stands for none."""
    return hash((order, message_id))


class _Stream:
    """The growing text of one streamed message, joined only when it is read."""

    __slots__ = ("appended", "length", "parts")

    def __init__(self, text: str) -> None:
        self.appended: str | None = text
        """The text of its append; None if the message is known only from the file."""
        self.parts = [text]
        self.length = len(text)

    def copy(self) -> _Stream:
        twin = _Stream("".join(self.parts))
        twin.appended = self.appended
        return twin


class Session:
    """`local_id` is the id within its store. All fields are read-only, except for the writer.

    `absent`: how many of the oldest messages are not in memory. Calls that need one of them raise Absent and change nothing.
    `Stored.read(whole=False)` returns such a session, and `shorten` makes one; `complete` ends that.
    """

    def __init__(self, local_id: str, created_at: str, *, absent: int = 0) -> None:
        self.local_id = local_id
        self.absent = absent
        self.created_at = created_at
        self.updated_at = created_at
        self.name: str | None = None
        self.model: str | None = None
        self.cwd: str | None = None
        self.tags: list[str] = []
        self.archived = False
        self.summary: str | None = None
        self.parent: dict[str, Json] | None = None
        self.metadata: dict[str, Json] = {}
        self.seq = 0
        self.notes: list[Note] = []
        self.state: dict[str, Json] = {}
        self.saved_at: str | None = None
        """When state last changed."""
        self.moved: tuple[int, int] | None = None
        """Seqs above the first and up to the second were given to other changes before: those of this machine that were provisional."""
        self._messages: list[Message] = []
        self._seqs: list[int] = []
        """Only of messages in memory, like the positions in `_by_id`."""
        self._by_id: dict[str, int] = {}
        self._surely_new: set[str] = set()
        """Ids that absent messages certainly do not have."""
        self._absent_ids: AbsentIds | None = None
        """None while they are unknown."""
        self._oldest_used = _NOT_USED
        """Position of the oldest message that was read since it was loaded, or since the last `begin_to_rest`."""
        self._notes_by_id: dict[str, int] = {}
        self._streams: dict[str, _Stream] = {}
        self._open: dict[str, None] = {}
        """Ids of messages whose status is `streaming`, whatever their content is."""
        self._log: deque[Change] = deque()
        self._retained = DEFAULT.retained_changes
        self._chars = 0

    # Reading

    def __len__(self) -> int:
        return self.absent + len(self._messages)

    def __bool__(self) -> bool:
        return True  # `session or ...` must not treat an empty session as missing

    @property
    def weight(self) -> int:
        """About how many bytes it holds in memory."""
        return self._chars + _MESSAGE_BYTES * len(self._messages)

    @property
    def is_checked(self) -> bool:
        """True if all of its file was read in this life, whether its messages are still in memory or not."""
        return not self.absent or self._absent_ids is not None

    def lacks_just(self, count: int, order: int) -> bool:
        """Return whether the absent messages are known to be so many, with ids in this order (see `in_order`)."""
        return self._absent_ids is not None and (self.absent, self._absent_ids.order) == (count, order)

    @property
    def is_blank(self) -> bool:
        """True if it has no content worth keeping: it may be forgotten."""
        return not (len(self) or self.notes or self.state or self.name)

    def info(self, wire_id: str | None = None) -> SessionInfo:
        return SessionInfo(
            session_id=wire_id or self.local_id,
            name=self.name,
            created_at=self.created_at,
            updated_at=self.updated_at,
            model=self.model,
            message_count=len(self),
            seq=self.seq,
            cwd=self.cwd,
            tags=list(self.tags),
            archived=self.archived,
            summary=self.summary,
            parent=self.parent,
            metadata=self.metadata,
        )

    def message(self, message_id: str) -> Message | None:
        position = self._place(message_id)
        return None if position is None else self._current(position)

    def unjoined(self, message_id: str) -> Message | None:
        """The message as stored: its fields are current, but its content may lack text that was streamed since the last read."""
        position = self._place(message_id)
        return None if position is None else self._messages[position]

    def _place(self, message_id: str) -> int | None:
        position = self._by_id.get(message_id)
        if position is None and self.absent and not self._lacks(message_id):
            raise Absent(message_id)
        return position

    def _lacks(self, message_id: str) -> bool:
        """Return whether certainly no absent message has this id."""
        if self._absent_ids is not None and message_id not in self._absent_ids:
            return True
        return message_id in self._surely_new

    def seek(self, message_ids: Iterable[str]) -> None:
        """Raise Absent, with all of them, if for some it is not known whether the session has them."""
        if self.absent:
            unknown = [one for one in message_ids if one not in self._by_id and not self._lacks(one)]
            if unknown:
                raise Absent(*unknown)

    def note_new(self, message_ids: Iterable[str]) -> None:
        """Absent messages do not have these ids, as was checked."""
        self._surely_new.update(message_ids)

    def appended_text(self, message_id: str) -> str | None:
        """The text that a streamed message was appended with, or None if it was not streamed in this life."""
        stream = self._streams.get(message_id)
        return stream.appended if stream else None

    def text_length(self, message_id: str) -> int:
        """Length of a message's string content in code points, without joining a stream."""
        stream = self._streams.get(message_id)
        if stream:
            return stream.length
        content = self._messages[self._by_id[message_id]].content
        return len(content) if isinstance(content, str) else 0

    def note(self, note_id: str) -> Note | None:
        position = self._notes_by_id.get(note_id)
        return None if position is None else self.notes[position]

    def messages(self, start: int = 0, stop: int | None = None) -> list[Message]:
        """The messages at positions [start, stop), oldest first, each with its current content."""
        start, stop = max(start, 0), len(self) if stop is None else min(stop, len(self))
        if start < min(self.absent, stop):
            raise Absent
        if start < stop:
            self._oldest_used = min(self._oldest_used, start)
        start, stop = max(start - self.absent, 0), max(stop - self.absent, 0)
        self._join_streams()
        return self._messages[start:stop]

    def _join_streams(self) -> None:
        for message_id in self._streams:
            self._current(self._by_id[message_id])

    def position_after(self, seq: int) -> int:
        """Position of the first message whose seq is greater than `seq`."""
        if self.absent and (not self._seqs or seq < self._seqs[0] - 1):
            raise Absent
        return self.absent + bisect_right(self._seqs, seq)

    def streaming(self) -> list[Message]:
        """Messages in memory that are still being streamed."""
        return [self._current(self._by_id[message_id]) for message_id in self._open]

    def settled(self, seq: int) -> int:
        """Return the last seq, up to `seq`, that means the same to whoever knows `seq` from earlier."""
        return self.moved[0] if self.moved is not None and self.moved[0] < seq <= self.moved[1] else seq

    def changes_since(self, seq: int) -> list[Change] | None:
        """Every change after `seq` in order, or None if not all of them are known.

        A file holds the result of changes, not the changes. Known are the changes since it was loaded, those that the
        journal still had, and older appends, which follow from the messages, as long as nothing else is missing and no seq
        stands for two things, as the seqs of an edited file may.
        """
        if seq > self.seq:
            return None
        known = [change for change in self._log if change.seq > seq]
        told = {message["seq"] for change in known if isinstance(change, Appended) for message in change.messages}
        untold = [m for m in self.messages(self.position_after(seq)) if m.seq not in told]
        covered = [one for one in told if one > seq] + [m.seq for m in untold]
        covered += [change.seq for change in known if not isinstance(change, Appended)]
        if not len(set(covered)) == len(covered) == self.seq - seq:
            return None
        out = [self._clip(change, seq) for change in known]
        out += [Appended(seq=m.seq, at=m.timestamp, messages=[m.wire()]) for m in untold]
        out.sort(key=lambda change: change.seq)
        return out

    # Changing (only by the writer)

    def check(self, changes: Iterable[Change]) -> None:
        """Raise Absent if one of `changes` needs all messages. Call this before they are made durable."""
        if self.absent and any(isinstance(change, (Cleared, Truncated)) for change in changes):
            raise Absent

    def apply(self, change: Change) -> None:
        """Apply one change. Costs the same in a session of any length, except for `Cleared` and `Truncated`.

        Raises KeyError if a change names a message that does not exist (a journal that belongs to another file).
        """
        match change:
            case Created():
                self._create(change)
            case Appended():
                for wire in change.messages:
                    self.add_message(Message.from_wire(wire))
            case Extended():
                self._extend(change)
            case Finished():
                self._finish(change)
            case Updated():
                self.update(change.fields)
            case Noted():
                self.add_note(Note.from_wire(change.note))
            case StateSet():
                self._set_state(change)
            case Cleared():
                self._cut(0, self.position_after(change.seq))  # first, because it may raise Absent
                self.summary = None
            case Truncated():
                self._cut(self.position_after(change.after_seq), self.position_after(change.seq))
        if not isinstance(change, (StateSet, Created)):
            self.touch(change.messages[-1]["timestamp"] if isinstance(change, Appended) else change.at)
        self.seq = max(self.seq, change.seq)
        self._remember(change)

    def add_message(self, message: Message) -> None:
        """Insert a message at the place of its seq. Decoders of files use this; a live append uses `apply`."""
        if message.id in self._by_id:
            raise ValueError(f"message id {message.id!r} already exists")
        if self._seqs and message.seq < self._seqs[-1]:
            position = self.position_after(message.seq) - self.absent
            self._messages.insert(position, message)
            self._seqs.insert(position, message.seq)
            self._by_id = {m.id: i for i, m in enumerate(self._messages)}
        else:
            self._by_id[message.id] = len(self._messages)
            self._messages.append(message)
            self._seqs.append(message.seq)
        self.seq = max(self.seq, message.seq)
        self._chars += _chars(message)
        if message.status == "streaming":
            self._open[message.id] = None
            if isinstance(message.content, str):
                self._streams[message.id] = _Stream(message.content)

    def replace_message(self, message: Message) -> None:
        """Replace the message of the same id (a decoder found a later version of it). Its seq remains."""
        position = self._by_id[message.id]
        self._chars += _chars(message) - _chars(self._messages[position])
        self._messages[position] = message
        self._streams.pop(message.id, None)
        if message.status == "streaming":
            self._open[message.id] = None
        else:
            self._open.pop(message.id, None)

    def add_note(self, note: Note) -> None:
        if note.id in self._notes_by_id:
            self.notes[self._notes_by_id[note.id]] = note
        else:
            self._notes_by_id[note.id] = len(self.notes)
            self.notes.append(note)
        self.seq = max(self.seq, note.seq)

    def drop_notes_after(self, seq: int) -> None:
        self.notes = [note for note in self.notes if note.seq <= seq]
        self._notes_by_id = {note.id: position for position, note in enumerate(self.notes)}

    def update(self, fields: Mapping[str, Json]) -> None:
        for key, value in fields.items():
            if key in UPDATABLE:
                setattr(self, key, value)

    def touch(self, at: str) -> None:
        """Move `updated_at` forward; a clock that goes backwards does not."""
        self.updated_at = max(self.updated_at, at)

    def snapshot(self) -> Session:
        """A copy that later changes do not affect, for a thread that writes a file. Copies a list, but not the messages."""
        self._join_streams()
        twin = self._without_messages()
        twin._messages = self._messages[:]
        twin._chars = self._chars
        twin._seqs = self._seqs[:]
        twin._by_id = dict(self._by_id)
        twin._streams = {message_id: stream.copy() for message_id, stream in self._streams.items()}
        twin._open = dict(self._open)
        twin._surely_new = set(self._surely_new)
        twin._absent_ids = self._absent_ids
        return twin

    def after(self, changes: Iterable[Change]) -> Session:
        """A copy with `changes` applied. For changes whose cost grows with the session: a thread may make the copy as long as
        this one is not changed.
        """
        twin = self.snapshot()
        twin._log = self._log.copy()
        for change in changes:
            twin.apply(change)
        return twin

    def retain(self, most: int) -> None:
        """Keep at most so many changes for `changes_since`, from now on."""
        self._retained = most
        while len(self._log) > most:
            self._log.popleft()

    def forget_changes(self) -> None:
        """A decoder applied results, not changes: neither the changes nor the texts of appends are known."""
        self._log.clear()
        for stream in self._streams.values():
            stream.appended = None

    def at_hand(self) -> Session:
        """A copy that has only the messages in memory."""
        twin = self.snapshot()
        twin.absent, twin._absent_ids = 0, None
        return twin

    def agrees(self, whole: Session) -> bool:
        """Return whether `whole` equals this one, as far as this is in memory, and the ids of what is not."""
        if whole.absent or len(whole) != len(self):
            return False
        ids = self._absent_ids
        if ids is not None and not all(message.id in ids for message in whole._messages[: self.absent]):
            return False
        mine, others = self._without_messages(), whole._without_messages()
        mine.absent = 0
        if mine.saved_at != others.saved_at or not content_equal(mine, others):
            return False
        return same_json(_wires(self.messages(self.absent)), _wires(whole.messages(self.absent)))

    def complete(self, whole: Session) -> None:
        """Take all messages and changes of `whole`, which agrees with this one and is not used elsewhere. Costs the same at
        any length.
        """
        self._messages, self._seqs, self._by_id = whole._messages, whole._seqs, whole._by_id
        self._streams, self._open, self._chars, self._log = whole._streams, whole._open, whole._chars, whole._log
        self.absent, self._absent_ids = 0, None
        self._surely_new.clear()

    def begin_to_rest(self) -> int:
        """Note from now on which messages are read; returns the position of the oldest one that was read since it was loaded, or since
        the last call.
        """
        used, self._oldest_used = self._oldest_used, _NOT_USED
        return used

    def dispensable(self, most: int) -> int:
        """Return how many of the oldest messages in memory can go so that the rest weighs at most `most`, if possible.

        The last one remains, and so do those that are being streamed and what came after them.
        """
        weight, kept = 0, 0
        for message in reversed(self._messages):
            weight += weight_of(message)
            if kept and weight > most:
                break
            kept += 1
        return min([len(self._messages) - kept, *(self._by_id[message_id] for message_id in self._open)])

    @property
    def first_seq(self) -> int:
        """The seq of the oldest message in memory."""
        return self._seqs[0]

    def note_checked(self, ids: AbsentIds) -> None:
        """The whole file was read and is what a partial load took it for. `ids`: of the absent messages."""
        self._absent_ids = ids
        self._surely_new.clear()

    def ids_of_oldest(self, count: int) -> Callable[[], AbsentIds]:
        """Return what a thread calls before `shorten(count, ...)`: it gives the ids of all messages that are absent then."""
        assert self.is_checked
        messages, before = self._messages[:count], self._absent_ids
        return lambda: AbsentIds((message.id for message in messages), before)

    def shorten(self, count: int, ids: AbsentIds) -> list[Message]:
        """Let go of the oldest `count` messages in memory, which the files have, and return them: freeing them takes a while.

        `ids`: of all messages that are absent then.
        """
        gone, self._messages, self._seqs = self._messages[:count], self._messages[count:], self._seqs[count:]
        self._by_id = {message.id: position for position, message in enumerate(self._messages)}
        self._streams = {
            message_id: stream for message_id, stream in self._streams.items() if message_id in self._by_id
        }
        self._chars = sum(map(_chars, self._messages))
        self.absent, self._absent_ids = self.absent + len(gone), ids
        self._surely_new.clear()
        least = self._seqs[0] if self._seqs else self.seq + 1
        while self._log and self._log[0].seq < least:
            self._log.popleft()
        return gone

    def _without_messages(self) -> Session:
        twin = Session(self.local_id, self.created_at, absent=self.absent)
        for key in (
            "updated_at",
            "name",
            "model",
            "cwd",
            "archived",
            "summary",
            "parent",
            "metadata",
            "seq",
            "saved_at",
            "moved",
        ):
            setattr(twin, key, getattr(self, key))
        twin.tags = list(self.tags)
        twin.notes = list(self.notes)
        twin.state = dict(self.state)
        twin._notes_by_id = dict(self._notes_by_id)
        return twin

    def _create(self, change: Created) -> None:
        info = change.info
        self.created_at = info.get("createdAt", change.at)
        self.updated_at = info.get("updatedAt", self.created_at)
        self.update(info)

    def _extend(self, change: Extended) -> None:
        position = self._by_id[change.message_id]
        message = self._messages[position]
        stream = self._streams.get(change.message_id)
        if stream is None:
            stream = self._streams[change.message_id] = _Stream(
                message.content if isinstance(message.content, str) else ""
            )
            stream.appended = None  # the message may have grown before it was read from a file
        stream.parts.append(change.text)
        stream.length += len(change.text)
        self._chars += len(change.text)
        if message.status != "streaming":
            self._messages[position] = msgspec.structs.replace(message, status="streaming")
            self._open[message.id] = None

    def _finish(self, change: Finished) -> None:
        position = self._by_id[change.message_id]
        message = self._current(position)
        rest = dict(message.rest)
        if change.metadata is not None:
            rest["metadata"] = {**message.metadata, **change.metadata}
        if change.tool_calls is not None:
            rest["toolCalls"] = change.tool_calls
        self._messages[position] = msgspec.structs.replace(message, status=change.status, rest=rest)
        self._open.pop(change.message_id, None)
        if change.message_id in self._streams and isinstance(message.content, str):
            self._streams[change.message_id].parts = [message.content]

    def _set_state(self, change: StateSet) -> None:
        for key, value in change.values.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.saved_at = change.at

    def _cut(self, start: int, stop: int) -> None:
        """Messages later than the change remain: a replay may find those of a later edit."""
        if self.absent:
            raise Absent
        for message in self._messages[start:stop]:
            del self._by_id[message.id]
            self._chars -= _chars(message)
            self._streams.pop(message.id, None)
            self._open.pop(message.id, None)
        del self._messages[start:stop], self._seqs[start:stop]
        for position in range(start, len(self._messages)):
            self._by_id[self._messages[position].id] = position

    def _current(self, position: int) -> Message:
        message = self._messages[position]
        stream = self._streams.get(message.id)
        if stream is None or len(stream.parts) <= 1:
            return message
        text = "".join(stream.parts)
        stream.parts = [text]
        message = msgspec.structs.replace(message, content=text)
        self._messages[position] = message
        return message

    def _remember(self, change: Change) -> None:
        self._log.append(change)
        while len(self._log) > self._retained:
            self._log.popleft()

    @staticmethod
    def _clip(change: Change, seq: int) -> Change:
        if isinstance(change, Appended) and change.messages[0]["seq"] <= seq:
            return Appended(seq=change.seq, at=change.at, messages=[m for m in change.messages if m["seq"] > seq])
        return change


def weight_of(message: Message) -> int:
    """Return about how many bytes a message takes in memory."""
    return _chars(message) + _MESSAGE_BYTES


def _chars(message: Message) -> int:
    content = message.content
    return len(content) if isinstance(content, str) else _BLOCK_CHARS * len(content)


def content_equal(a: Session, b: Session) -> bool:
    """Return whether two sessions look the same to every client. For tests, and to decide that there is nothing to save."""
    keys = (
        "name",
        "model",
        "cwd",
        "tags",
        "archived",
        "summary",
        "parent",
        "metadata",
        "created_at",
        "updated_at",
        "state",
        "seq",
    )
    return (
        all(same_json(getattr(a, key), getattr(b, key)) for key in keys)
        and same_json(_wires(a.messages()), _wires(b.messages()))
        and same_json(_wires(a.notes), _wires(b.notes))
    )


def _wires(items: Iterable[Message | Note]) -> list[dict[str, Json]]:
    return [item.wire() for item in items]
