"""Refuses to write what would not fit into a response again.

Two things must fit, as JSON: every message alone, and everything else (info, notes and state) together. Sizes are kept as
upper bounds that grow with what is written, and are computed again only if a bound is too large, so that the cost of a piece
of a streamed message depends only on the piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from sessiond.errors import TooLarge
from sessiond.limits import KIB, Limits
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import Json
from sessiond.model.wire import encode

_BESIDE_A_MESSAGE = 4 * KIB
"""What a response holds in addition to the largest message that it must be able to carry."""
_BESIDE_THE_HEAD = 64 * KIB
"""... and in addition to everything else that is known about a session: the envelope, its path, warnings."""
_KNOWN_MESSAGES = 1000
_JSON_CHAR = 6
"""Bytes that a character may have at most, as in \\u0000."""


def largest_message(limits: Limits) -> int:
    """Bytes of JSON."""
    return max(limits.message_bytes - _BESIDE_A_MESSAGE, 1)


def largest_head(limits: Limits) -> int:
    """Bytes of JSON of info, notes and state that may be written."""
    return limits.message_bytes - reserve(limits)


def most_shown(limits: Limits) -> int:
    """Bytes of JSON of the same that may be in a response. This is more, so that nothing that was written is ever left out:
    what the daemon adds (path, warnings, ...) is in the reserve.
    """
    return limits.message_bytes - reserve(limits) // 4


def reserve(limits: Limits) -> int:
    return min(_BESIDE_THE_HEAD, limits.message_bytes // 8)


def json_bytes(value: object) -> int:
    return len(encode(value))


def message_bytes(message: Message) -> int:
    """At least as many bytes as it has as JSON."""
    if isinstance(message.content, str) and not message.rest and len(message.id) < KIB:
        return _JSON_CHAR * (len(message.content) + len(message.role) + len(message.id)) + 200
    return json_bytes(message.wire())


def head_bytes(session: Session, fields: Mapping[str, Json], state: Json, notes: Iterable[Note]) -> int:
    """At least as many bytes as these have as JSON: info, with `fields` changed, `state`, the session's notes and `notes`."""
    info = {**msgspec.to_builtins(session.info()), **fields}
    every = [note.wire() for note in (*session.notes, *notes)]
    return json_bytes(info) + json_bytes(state) + json_bytes(every)


class SizeLimits:
    """The sizes of one session in memory. `of` names the object that the bounds are for: for another one they start again."""

    def __init__(self, limits: Limits) -> None:
        self._message_limit = largest_message(limits)
        self._head_limit = largest_head(limits)
        self._session: Session | None = None
        self._head: int | None = None
        self._messages: dict[str, int] = {}

    def of(self, session: Session) -> SizeLimits:
        if self._session is not session or len(self._messages) > _KNOWN_MESSAGES:
            self._session, self._head = session, None
            self._messages.clear()
        return self

    def grow_message(self, message: Message, more: Json, now: Callable[[], Message]) -> None:
        """`more` is added to it. `now()`: the message as it will be. If this raises TooLarge, nothing is added."""
        bound = self._messages.get(message.id)
        if bound is not None:
            bound += json_bytes(more) + _BESIDE_A_MESSAGE // 64
        if bound is None or bound > self._message_limit:
            bound = message_bytes(now())
            if bound > self._message_limit:
                bound = json_bytes(now().wire())
            if bound > self._message_limit:
                raise TooLarge(
                    f"the message {message.id!r} would be too large to read back",
                    hint="finish it, and continue in another message",
                    limit=self._message_limit,
                )
        self._messages[message.id] = bound

    def check_head(self, more: Json, now: Callable[[], int]) -> None:
        """`more` is added to info, notes and state. `now()`: how many bytes these will have. TooLarge."""
        bound = None if self._head is None else self._head + json_bytes(more) + KIB
        if bound is None or bound > self._head_limit:
            bound = now()
        if bound > self._head_limit:
            raise TooLarge(
                "metadata, notes and state of the session would be too large to read back",
                hint="store this much data in messages or in a separate session",
                limit=self._head_limit,
            )
        self._head = bound
