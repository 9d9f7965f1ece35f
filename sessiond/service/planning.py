"""Turns requests into planned changes: nothing here is durable or applied.

A `Draft` represents a session with some changes that are not durable yet, so that the requests of several clients go to the
journal in one batch. Each planning method either adds its changes to the draft, or raises and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sessiond.errors import Conflict, InvalidParams
from sessiond.model.changes import Appended, Change, Extended, Finished, Noted, StateSet, Updated
from sessiond.model.message import Message, Note, repeats, wire_from_client
from sessiond.model.session import Session
from sessiond.model.values import Json, JsonObject, WireObject, same_json, with_records
from sessiond.schema.sessions import AppendedMessage
from sessiond.service.size_limits import SizeLimits, head_bytes


class _Growing:
    """A streamed message as the draft will leave it."""

    __slots__ = ("added", "base", "length", "status")

    def __init__(self, message: Message, length: int) -> None:
        self.base = message
        self.length = length
        self.status = message.status or "done"
        self.added: list[str] = []


def check_seq(now: int, expected: int | None) -> None:
    """Conflict unless a session is at the seq that is expected, if any is."""
    if expected is not None and expected != now:
        raise Conflict(
            f"the session is at seq {now}, not {expected}",
            hint="read what was added since, then send it again",
            seq=now,
        )


class Draft:
    """`now`: RFC 3339. `new_id()`: a fresh message id. `room` refuses what would be too large to read back.

    `shared`: in a store of several machines. Text that one client adds to a message in a row is one change there, with one seq, and
    the store says who the author of a message is. `origin`: whose request is being planned. `agreed`: one of the requests expects
    a seq, so the plan holds only if the store can say which seq the session really has.
    """

    def __init__(
        self,
        session: Session,
        now: str,
        new_id: Callable[[], str],
        room: SizeLimits,
        *,
        shared: bool = False,
    ) -> None:
        self.session = session
        self.origin: object = None
        self._shared = shared
        self._last_origin: object = None
        self._room = room.of(session)
        self.seq = session.seq
        self.changes: list[Change] = []
        self._now = now
        self._new_id = new_id
        self._fresh: dict[str, WireObject] = {}
        """Messages of this draft, as the journal will have them. Only the session makes a Message of each."""
        self._growing: dict[str, _Growing] = {}
        self._finished: dict[str, Finished] = {}
        self._notes: dict[str, Note] = {}
        self._state: dict[str, Json] | None = None
        self._fields: dict[str, Json] = {}
        self.agreed = False

    def expect(self, seq: int | None) -> None:
        if seq is not None:
            self.agreed = True
            check_seq(self.seq, seq)

    # Messages

    def append(self, sent: Sequence[WireObject], expected_seq: int | None) -> list[AppendedMessage]:
        """Plan checked client messages; returns where each is. A retry of messages that exist adds nothing."""
        if self._shared:
            sent = [{key: value for key, value in wire.items() if key != "author"} for wire in sent]
        if self.session.absent:
            self.session.seek([wire["id"] for wire in sent if wire.get("id") is not None])
        answers: list[AppendedMessage] = []
        fresh: dict[str, WireObject] = {}
        seq = self.seq
        for wire in sent:
            message_id = wire.get("id")
            kept = None if message_id is None else self._kept(message_id, fresh)
            if kept is not None:
                self._check_repeats(wire, kept)
                answers.append(AppendedMessage(id=kept.id, seq=kept.seq))
                continue
            seq += 1
            message_id = message_id or self._new_id()
            fresh[message_id] = wire_from_client(wire, message_id=message_id, seq=seq, now=self._now)
            answers.append(AppendedMessage(id=message_id, seq=seq))
        if fresh:
            if expected_seq is not None:
                self.expect(expected_seq)
            self._fresh |= fresh
            self._add(Appended(seq=seq, at=self._now, messages=list(fresh.values())))
        return answers

    def _kept(self, message_id: str, fresh: Mapping[str, Mapping[str, Json]]) -> Message | None:
        wire = fresh.get(message_id)
        return self._message(message_id) if wire is None else Message.from_wire(wire)

    def _message(self, message_id: str) -> Message | None:
        wire = self._fresh.get(message_id)
        return self.session.message(message_id) if wire is None else Message.from_wire(wire)

    def _check_repeats(self, wire: Mapping[str, Json], kept: Message) -> None:
        appended = self.session.appended_text(kept.id)
        growing = wire.get("status") in ("streaming", "interrupted")
        if appended is None and growing and _starts_with(kept.content, wire.get("content")):
            appended = str(wire["content"])  # it has grown since or before it was read from a file
        if not repeats(wire, kept, appended):
            raise Conflict(
                f"the session has a message {kept.id!r} with other content",
                hint="give the new message another id",
                seq=self.seq,
                messageId=kept.id,
            )

    def _grow(self, message_id: str) -> _Growing:
        growing = self._growing.get(message_id)
        if growing is None:
            fresh = message_id in self._fresh
            # Not joined: a reply of a megabyte comes in ten thousand pieces.
            message = self._message(message_id) if fresh else self.session.unjoined(message_id)
            if message is None:
                raise self._no_message(message_id)
            if not isinstance(message.content, str):
                raise InvalidParams(
                    "messageId: only a message whose content is a string can be extended", field="messageId"
                )
            length = len(message.content) if fresh else self.session.text_length(message_id)
            growing = self._growing[message_id] = _Growing(message, length)
            finished = self._finished.get(message_id)
            if finished is not None:
                growing.status = finished.status
        return growing

    def _no_message(self, message_id: str) -> InvalidParams:
        return InvalidParams(f"messageId: the session has no message {message_id!r}", field="messageId")

    def extend(self, message_id: str, text: str, offset: int | None) -> int:
        """Plan more text for a streamed message; returns the session's seq after it."""
        growing = self._grow(message_id)
        if offset is not None and offset != growing.length:
            text = self._beyond(growing, text, offset)
            if not text:
                return self.seq
        if growing.status not in ("streaming", "interrupted"):
            raise Conflict(
                f"the message {message_id!r} is already finished ({growing.status})",
                hint="append a new message",
                seq=self.seq,
                messageId=message_id,
            )
        if not text:
            return self.seq
        change = Extended(seq=self.seq + 1, at=self._now, message_id=message_id, offset=growing.length, text=text)
        self._room.grow_message(growing.base, text, lambda: self._grown(growing, text))
        growing.added.append(text)
        growing.length += len(text)
        growing.status = "streaming"
        last = self.changes[-1] if self._shared and self.changes and self._last_origin is self.origin else None
        if isinstance(last, Extended) and last.message_id == message_id:
            self.changes[-1] = msgspec.structs.replace(last, text=last.text + text)
        else:
            self._add(change)
        return self.seq

    def _beyond(self, growing: _Growing, text: str, offset: int) -> str:
        """The part of `text` at `offset` that is not there yet. Conflict if other text is there, or a gap would be left."""
        there = self._content(growing)
        if 0 <= offset < len(there):
            overlap = there[offset : offset + len(text)]
            if text.startswith(overlap):
                return text[len(overlap) :]
        raise Conflict(
            f"the message has {len(there)} characters, and different text or nothing at {offset}",
            hint="read the message and continue from its length",
            seq=self.seq,
            messageId=growing.base.id,
            length=len(there),
        )

    def _grown(self, growing: _Growing, text: str) -> Message:
        return msgspec.structs.replace(growing.base, content=self._content(growing) + text, status="streaming")

    def _content(self, growing: _Growing) -> str:
        """The text of a growing message."""
        message = growing.base if growing.base.id in self._fresh else self.session.message(growing.base.id)
        content = message.content if message is not None else growing.base.content
        return "".join((content if isinstance(content, str) else "", *growing.added))

    def finish(
        self, message_id: str, status: str, metadata: JsonObject | None, tool_calls: list[JsonObject] | None
    ) -> int:
        message = self._message(message_id)
        if message is None:
            raise self._no_message(message_id)
        growing, before = self._growing.get(message_id), self._finished.get(message_id)
        current = growing.status if growing else before.status if before else message.status or "done"
        if current not in ("streaming", "interrupted"):
            if current == status and _includes(message, before, metadata, tool_calls):
                return self.seq
            raise Conflict(
                f"the message {message_id!r} is already finished ({current})", seq=self.seq, messageId=message_id
            )
        if current == status and metadata is None and tool_calls is None:
            return self.seq
        change = Finished(
            seq=self.seq + 1,
            at=self._now,
            message_id=message_id,
            status=status,
            metadata=metadata,
            tool_calls=tool_calls,
        )
        joined = _joined(before, change)
        if metadata is not None or tool_calls is not None:
            more: list[Json] = [metadata, tool_calls]
            self._room.grow_message(message, more, lambda: self._finished_as(message, growing, joined))
        self._finished[message_id] = joined
        if growing is not None:
            growing.status = status
        self._add(change)
        return self.seq

    def _finished_as(self, message: Message, growing: _Growing | None, finished: Finished) -> Message:
        rest = dict(message.rest)
        if finished.metadata is not None:
            rest["metadata"] = {**message.metadata, **finished.metadata}
        if finished.tool_calls is not None:
            rest["toolCalls"] = finished.tool_calls
        content = message.content if growing is None else self._content(growing)
        return msgspec.structs.replace(message, content=content, status=finished.status, rest=rest)

    # The rest

    def update(self, fields: Mapping[str, Json], expected_seq: int | None, *, at: str | None = None) -> None:
        """Plan new info; fields that already have that value are not a change. `at`: now, if not given."""
        now_has = {key: self._fields.get(key, getattr(self.session, key)) for key in fields}
        new = {key: value for key, value in fields.items() if not same_json(value, now_has[key])}
        self.expect(expected_seq)
        if new:
            self._check_head(new, fields=new)
            self._fields |= new
            self._add(Updated(seq=self.seq + 1, at=at or self._now, fields=new))

    def revise(self, fields: Mapping[str, Json], expected_seq: int | None) -> None:
        """Plan info that a client gives. A SessionInfo does not show the client all metadata: the rest stays."""
        given = fields.get("metadata")
        if isinstance(given, dict):
            before = self._fields.get("metadata", self.session.metadata)
            fields = {**fields, "metadata": with_records(given, before if isinstance(before, dict) else {})}
        self.update(fields, expected_seq)

    def learn(self, fields: Mapping[str, Json], at: str) -> None:
        """Plan info that was true at `at`, which the session is then at least as new as, even if none of it is new."""
        before = self.seq
        self.update(fields, None, at=at)
        if self.seq == before and at > self.session.updated_at:
            self._add(Updated(seq=self.seq + 1, at=at, fields={}))

    def note(self, heading: str, content: str, thread: str | None, tick: int | None, note_id: str | None) -> Note:
        if note_id is not None:
            kept = self._notes.get(note_id) or self.session.note(note_id)
            if kept is not None:
                if (kept.heading, kept.content, kept.thread) != (heading, content, thread) or (
                    tick is not None and tick != kept.tick
                ):
                    raise Conflict(
                        f"the session has a note {note_id!r} with other content", seq=self.seq, noteId=note_id
                    )
                return kept
        note = Note(
            id=note_id or "n" + self._new_id()[1:],
            seq=self.seq + 1,
            heading=heading,
            content=content,
            thread=thread,
            tick=tick,
            timestamp=self._now,
        )
        self._check_head(note.wire(), note=note)
        self._notes[note.id] = note
        self._add(Noted.of(note))
        return note

    def set_state(self, values: Mapping[str, Json], expected_seq: int | None) -> int:
        """Equal values are not a change; None removes a value."""
        state = self.session.state if self._state is None else self._state
        new = {
            key: value
            for key, value in values.items()
            if (key in state if value is None else key not in state or not same_json(state[key], value))
        }
        self.expect(expected_seq)
        if new:
            after = {key: value for key, value in {**state, **new}.items() if value is not None}
            self._check_head(new, state=after)
            self._state = after
            self._add(StateSet(seq=self.seq + 1, at=self._now, values=new))
        return self.seq

    def clear_state(self) -> int:
        state = self.session.state if self._state is None else self._state
        return self.set_state(dict.fromkeys(state), None)

    def _check_head(
        self, more: Json, *, fields: Mapping[str, Json] | None = None, state: Json = None, note: Note | None = None
    ) -> None:
        notes = [*self._notes.values(), *([note] if note is not None else [])]
        old = self.session.state if self._state is None else self._state
        after = {**self._fields, **(fields or {})}
        self._room.check_head(more, lambda: head_bytes(self.session, after, old if state is None else state, notes))

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self._last_origin = self.origin
        self.seq = change.seq


def _starts_with(kept: object, sent: object) -> bool:
    return isinstance(kept, str) and isinstance(sent, str) and kept.startswith(sent)


def _joined(before: Finished | None, change: Finished) -> Finished:
    """Return what both of them say about the message."""
    if before is None:
        return change
    metadata = (
        None if before.metadata is change.metadata is None else {**(before.metadata or {}), **(change.metadata or {})}
    )
    calls = before.tool_calls if change.tool_calls is None else change.tool_calls
    return msgspec.structs.replace(change, metadata=metadata, tool_calls=calls)


def _includes(
    message: Message, finished: Finished | None, metadata: JsonObject | None, tool_calls: list[JsonObject] | None
) -> bool:
    """Return whether the message says all this already. `finished`: what the draft did to it."""
    has = {**message.metadata, **(finished.metadata or {})} if finished else message.metadata
    calls = finished.tool_calls if finished and finished.tool_calls is not None else message.rest.get("toolCalls")
    same = all(key in has and same_json(value, has[key]) for key, value in (metadata or {}).items())
    return same and (tool_calls is None or same_json(tool_calls, calls))
