"""An answer that is sent as soon as the change is durable, without passing through the loop."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial

from sessiond.rpc.envelope import success
from sessiond.transports.channel import Channel


class EarlyAnswer:
    """The answer to one request. The loop prepares it; the journal's thread may send it, until the loop has finished the
    request. The one that claims it first sends it; neither waits for the other.
    """

    __slots__ = ("_channel", "_in_flight", "_most", "_request_id", "_unclaimed", "_withdrawn")

    def __init__(self, channel: Channel, request_id: bytes, most: int, in_flight: Sized) -> None:
        """`in_flight`: the requests of the connection, including this one."""
        self._channel = channel
        self._request_id = request_id
        self._most = most
        self._in_flight = in_flight
        self._unclaimed = [True]
        """Popping the only item of a list is atomic."""
        self._withdrawn: bool | None = None
        """Whether the loop has claimed it, instead of the thread; None until the loop tries."""

    def when_durable(self, result: object) -> Callable[[], bool] | None:
        """Returns a function that sends this result from any thread, and returns whether its client waits for nothing else.
        None: only the loop can send it.
        """
        answer = success(self._request_id, result)
        send = self._channel.at_once(answer, self._claim) if len(answer) <= self._most else None
        return None if send is None else partial(self._send, send)

    def _send(self, send: Callable[[], bool]) -> bool:
        return send() and len(self._in_flight) <= 1

    def _claim(self) -> bool:
        """The thread claims it when nothing prevents sending it."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def withdraw(self) -> bool:
        """Claim it for the loop, and return whether the thread has sent it, or is about to. If not, the loop must send it."""
        if self._withdrawn is None:
            self._withdrawn = self._claim()
        return not self._withdrawn
