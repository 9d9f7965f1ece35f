"""Decides whether a connection's channel is read, and knows the reasons why it is not."""

from __future__ import annotations

from sessiond.transports.channel import Channel

FULL, CHOKED, BATCH, OVER = 1, 2, 4, 8
"""Reasons: too much is in flight, the peer does not read, a batch runs alone, the connection ends."""


class ReadPause:
    """The channel is read as long as there is no reason against it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reasons = 0

    def held(self, reason: int) -> bool:
        return bool(self._reasons & reason)

    def hold(self, reason: int) -> None:
        if not self._reasons:
            self._channel.hold()
        self._reasons |= reason

    def release(self, reason: int) -> None:
        if self._reasons:
            self._reasons &= ~reason
            if not self._reasons:
                self._channel.release()
