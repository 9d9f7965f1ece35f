"""The text of a reply that streams in, and how much of it the daemon has. No I/O.

Pieces go out one request each, without waiting for the response to the piece before. Each says its offset, so after a lost
connection everything that was not acknowledged goes out again, and what the daemon has already adds nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any

PIECES_IN_FLIGHT = 32
CHARS_IN_FLIGHT = 1024 * 1024


class Tape:
    """`connection`: whichever object stands for the connection that the pieces in flight went over."""

    def __init__(self, session_id: str, message_id: str, length: int) -> None:
        self.session_id = session_id
        self.message_id = message_id
        self._connection: Any = None
        self._acknowledged = length
        """Code points that are durable."""
        self._texts: deque[str] = deque()
        """All that is not acknowledged, oldest first."""
        self._in_flight: deque[tuple[Any, int]] = deque()
        """Of the first texts: what stands for the request, and the text's length."""

    def add(self, text: str) -> None:
        if text:
            self._texts.append(text)

    @property
    def full(self) -> bool:
        """Too much is in flight: wait for a response before more is sent."""
        in_flight = sum(length for _, length in self._in_flight)
        return len(self._in_flight) >= PIECES_IN_FLIGHT or in_flight > CHARS_IN_FLIGHT

    @property
    def oldest(self) -> Any:
        """The request that was sent first of those without a response; None if none is in flight."""
        return self._in_flight[0][0] if self._in_flight else None

    def over(self, connection: Any) -> None:
        """What follows goes over this connection. On another one than before, everything unacknowledged goes again, as one."""
        if connection is not self._connection:
            self._connection = connection
            self._in_flight.clear()
            if len(self._texts) > 1:
                self._texts = deque(["".join(self._texts)])

    def next(self) -> dict[str, Any] | None:
        """Params of the next `session/extend`; None if everything was sent."""
        if len(self._in_flight) == len(self._texts):
            return None
        offset = self._acknowledged + sum(length for _, length in self._in_flight)
        text = self._texts[len(self._in_flight)]
        return {"sessionId": self.session_id, "messageId": self.message_id, "text": text, "offset": offset}

    def sent(self, request: Any) -> None:
        self._in_flight.append((request, len(self._texts[len(self._in_flight)])))

    def acknowledged(self) -> None:
        """The oldest request got its response."""
        _, length = self._in_flight.popleft()
        self._texts.popleft()
        self._acknowledged += length
