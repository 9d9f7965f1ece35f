"""The text of a reply that streams in, and how much of it the daemon has. No I/O.

Pieces go out one request each, without waiting for the response to the piece before. Each says its offset, so after a lost
connection everything that was not acknowledged goes out again, and what the daemon has already adds nothing. After a piece that
the daemon refused there is a hole, so nothing more can be written.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sessiond.client.wire import Incoming, check_text

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
        # Each piece has its own offset: an interrupt between any two lines here leaves no text at a wrong place.
        self._pieces: deque[tuple[int, str]] = deque()
        """All that is not acknowledged, oldest first: offset and text."""
        self._in_flight: deque[Any] = deque()
        """What stands for the requests of the first pieces."""
        self.refusal: Incoming | None = None
        """The response to the first piece that the daemon refused."""

    def add(self, text: str) -> None:
        """NotText where it cannot be sent; what follows can."""
        check_text(text)
        if text and self.refusal is None:
            self._pieces.append((_end(self._pieces[-1]) if self._pieces else self._acknowledged, text))

    @property
    def full(self) -> bool:
        """Too much is in flight: wait for a response before more is sent."""
        count = len(self._in_flight)
        if not count:
            return False
        return count >= PIECES_IN_FLIGHT or _end(self._pieces[count - 1]) - self._acknowledged > CHARS_IN_FLIGHT

    @property
    def oldest(self) -> Any:
        """The request that was sent first of those without a response; None if none is in flight."""
        return self._in_flight[0] if self._in_flight else None

    def over(self, connection: Any) -> None:
        """Use this connection for what follows. On another one than before, everything unacknowledged goes again, piece by piece:
        together it may be more than the daemon takes at once.
        """
        if connection is not self._connection:
            self._in_flight.clear()
            self._connection = connection

    def next(self) -> dict[str, Any] | None:
        """Params of the next `session/extend`; None if everything was sent."""
        if len(self._in_flight) == len(self._pieces):
            return None
        offset, text = self._pieces[len(self._in_flight)]
        return {"sessionId": self.session_id, "messageId": self.message_id, "text": text, "offset": offset}

    def sent(self, request: Any) -> None:
        self._in_flight.append(request)

    def acknowledged(self) -> None:
        """The oldest request got its response."""
        self._acknowledged = _end(self._pieces[0])
        self._in_flight.popleft()
        self._pieces.popleft()

    def refused(self, response: Incoming) -> None:
        """The oldest request got this response. What followed it is given up: its place will never be there."""
        self.refusal = response
        self._in_flight.clear()
        self._pieces.clear()


def _end(piece: tuple[int, str]) -> int:
    return piece[0] + len(piece[1])
