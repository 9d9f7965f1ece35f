"""From what a client asks to what changes, on paper: nothing here is durable or applied.

A `Draft` stands for a session with some changes that are not durable yet, so that the requests of several clients go to
the journal in one batch. Each planning method either adds its changes to the draft, or raises and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sessiond.errors import Conflict, InvalidParams
from sessiond.model.changes import Appended, Change, Extended, Finished, Noted, StateSet, Updated
from sessiond.model.message import Message, Note, message_from_client, repeats
from sessiond.model.session import Session
from sessiond.model.values import Json, same_json


class _Growing:
    """A streamed message as the draft will leave it."""

    __slots__ = ("added", "base", "length", "status")

    def __init__(self, message: Message, length: int) -> None:
        self.base = message
        self.length = length
        self.status = message.status or "done"
        self.added: list[str] = []


class Draft:
    """`now`: RFC 3339. `new_id()`: a fresh message id."""

    def __init__(self, session: Session, now: str, new_id: Callable[[], str]) -> None:
        self.session = session
        self.seq = session.seq
        self.changes: list[Change] = []
        self._now = now
        self._new_id = new_id
        self._messages: dict[str, Message] = {}
        self._growing: dict[str, _Growing] = {}
        self._notes: dict[str, Note] = {}
        self._state: dict[str, Json] | None = None
        self._fields: dict[str, Json] = {}

    def expect(self, seq: int | None) -> None:
        if seq is not None and seq != self.seq:
            raise Conflict(
                f"the session is at seq {self.seq}, not {seq}",
                hint="read what came since, then send it again",
                seq=self.seq,
            )

    # Messages

    def append(self, sent: Sequence[Mapping[str, Json]], expected_seq: int | None) -> list[tuple[str, int]]:
        """Plan checked client messages; answers (id, seq) for each. A retry of messages that are there adds nothing."""
        self.session.seek([wire["id"] for wire in sent if wire.get("id") is not None])
        answers: list[tuple[str, int]] = []
        fresh: dict[str, Message] = {}
        seq = self.seq
        for wire in sent:
            message_id = wire.get("id")
            kept = None if message_id is None else fresh.get(message_id) or self._message(message_id)
            if kept is not None and message_id is not None:
                self._check_repeats(wire, kept)
                answers.append((message_id, kept.seq))
                continue
            seq += 1
            message = message_from_client(wire, message_id=message_id or self._new_id(), seq=seq, now=self._now)
            fresh[message.id] = message
            answers.append((message.id, seq))
        if fresh:
            self.expect(expected_seq)
            self._messages |= fresh
            self._add(Appended.of(list(fresh.values()), self._now))
        return answers

    def _message(self, message_id: str) -> Message | None:
        return self._messages.get(message_id) or self.session.message(message_id)

    def _check_repeats(self, wire: Mapping[str, Json], kept: Message) -> None:
        appended = self.session.appended_text(kept.id)
        if appended is None and wire.get("status") == "streaming" and _starts_with(kept.content, wire.get("content")):
            appended = str(wire["content"])
        if not repeats(wire, kept, appended):
            raise Conflict(
                f"the session has a message {kept.id!r} with other content",
                hint="give the new message an id of its own",
                seq=self.seq,
                messageId=kept.id,
            )

    def _grow(self, message_id: str) -> _Growing:
        growing = self._growing.get(message_id)
        if growing is None:
            # Not joined: a reply of a megabyte comes in ten thousand pieces.
            message = self._messages.get(message_id) or self.session.unjoined(message_id)
            if message is None:
                raise InvalidParams(f"messageId: the session has no message {message_id!r}", field="messageId")
            if not isinstance(message.content, str):
                raise InvalidParams(
                    "messageId: only a message whose content is a string can be extended", field="messageId"
                )
            length = len(message.content) if message_id in self._messages else self.session.text_length(message_id)
            growing = self._growing[message_id] = _Growing(message, length)
        return growing

    def extend(self, message_id: str, text: str, offset: int | None) -> int:
        """Plan more text for a streamed message; answers the session's seq after it."""
        growing = self._grow(message_id)
        if offset is not None and offset != growing.length:
            text = self._beyond(growing, text, offset)
            if not text:
                return self.seq
        if growing.status not in ("streaming", "interrupted"):
            raise Conflict(
                f"the message {message_id!r} is finished ({growing.status})",
                hint="append a new message",
                seq=self.seq,
                messageId=message_id,
            )
        if not text:
            return self.seq
        change = Extended(seq=self.seq + 1, at=self._now, message_id=message_id, offset=growing.length, text=text)
        growing.added.append(text)
        growing.length += len(text)
        growing.status = "streaming"
        self._add(change)
        return self.seq

    def _beyond(self, growing: _Growing, text: str, offset: int) -> str:
        """The part of `text` at `offset` that is not there yet. Conflict where something else is there, or a hole would
        be left.
        """
        content = growing.base.content
        if growing.base.id not in self._messages:
            message = self.session.message(growing.base.id)
            content = message.content if message else content
        there = "".join((content if isinstance(content, str) else "", *growing.added))
        if 0 <= offset < len(there):
            overlap = there[offset : offset + len(text)]
            if text.startswith(overlap):
                return text[len(overlap) :]
        raise Conflict(
            f"the message has {len(there)} characters, and other text or none at {offset}",
            hint="read the message and go on from its length",
            seq=self.seq,
            messageId=growing.base.id,
            length=len(there),
        )

    def finish(
        self, message_id: str, status: str, metadata: dict[str, Any] | None, tool_calls: list[Any] | None
    ) -> int:
        message = self._message(message_id)
        if message is None:
            raise InvalidParams(f"messageId: the session has no message {message_id!r}", field="messageId")
        growing = self._growing.get(message_id)
        current = growing.status if growing else message.status or "done"
        if current not in ("streaming", "interrupted"):
            same = current == status and _includes(message, metadata, tool_calls)
            if same or (current == status and growing is not None):
                return self.seq
            raise Conflict(f"the message {message_id!r} is finished ({current})", seq=self.seq, messageId=message_id)
        if current == status and metadata is None and tool_calls is None:
            return self.seq
        self._add(
            Finished(
                seq=self.seq + 1,
                at=self._now,
                message_id=message_id,
                status=status,
                metadata=metadata,
                tool_calls=tool_calls,
            )
        )
        if growing is None and isinstance(message.content, str):
            growing = self._grow(message_id)
        if growing is not None:
            growing.status = status
        return self.seq

    # The rest

    def update(self, fields: Mapping[str, Json], expected_seq: int | None, *, at: str | None = None) -> None:
        """Plan new info; fields that have that value already are no change. `at`: now, if not given."""
        now_has = {key: self._fields.get(key, getattr(self.session, key)) for key in fields}
        new = {key: value for key, value in fields.items() if not same_json(value, now_has[key])}
        self.expect(expected_seq)
        if new:
            self._fields |= new
            self._add(Updated(seq=self.seq + 1, at=at or self._now, fields=new))

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
            id=note_id or "n" + self._new_id()[1:], seq=self.seq + 1, heading=heading, content=content, thread=thread, tick=tick,
            timestamp=self._now,
        )  # fmt: skip
        self._notes[note.id] = note
        self._add(Noted.of(note))
        return note

    def set_state(self, values: Mapping[str, Json], expected_seq: int | None) -> int:
        """Equal values are no change; None removes."""
        state = self.session.state if self._state is None else self._state
        new = {
            key: value
            for key, value in values.items()
            if (key in state if value is None else key not in state or not same_json(state[key], value))
        }
        self.expect(expected_seq)
        if new:
            self._state = {key: value for key, value in {**state, **new}.items() if value is not None}
            self._add(StateSet(seq=self.seq + 1, at=self._now, values=new))
        return self.seq

    def clear_state(self) -> int:
        state = self.session.state if self._state is None else self._state
        return self.set_state(dict.fromkeys(state), None)

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self.seq = change.seq


def _starts_with(kept: Any, sent: Any) -> bool:
    return isinstance(kept, str) and isinstance(sent, str) and kept.startswith(sent)


def _includes(message: Message, metadata: dict[str, Any] | None, tool_calls: list[Any] | None) -> bool:
    has = message.metadata
    same = all(key in has and same_json(value, has[key]) for key, value in (metadata or {}).items())
    return same and (tool_calls is None or same_json(tool_calls, message.rest.get("toolCalls")))
