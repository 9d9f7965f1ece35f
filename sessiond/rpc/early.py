"""An answer that goes out as soon as the change is durable, without a way through the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from sessiond.rpc.envelope import success
from sessiond.transports.channel import Channel


class EarlyAnswer:
    """The answer to one request. The loop prepares it; the journal's thread may send it, until the loop withdraws it because the
    request is done. So it is sent once, by one of the two.
    """

    __slots__ = ("_channel", "_lock", "_most", "_request_id", "_withdrawn", "sent")

    def __init__(self, channel: Channel, request_id: bytes, most: int) -> None:
        self._channel = channel
        self._request_id = request_id
        self._most = most
        self._lock = threading.Lock()
        self._withdrawn = False
        self.sent = False
        """The answer is out, or on its way."""

    def when_durable(self, result: Any) -> Callable[[], bool] | None:
        """What sends this result, from any thread. None: only the loop can."""
        answer = success(self._request_id, result)
        send = self._channel.at_once(answer) if len(answer) <= self._most else None
        return None if send is None else partial(self._send, send)

    def _send(self, send: Callable[[], bool]) -> bool:
        with self._lock:
            if not self._withdrawn:
                self.sent = send()
        return self.sent

    def withdraw(self) -> bool:
        """Whether it is sent. If not, it is the caller's to send."""
        with self._lock:
            self._withdrawn = True
        return self.sent
