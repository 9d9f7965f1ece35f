"""`$/progress` for one request, only as often as a person needs to see it move."""

from __future__ import annotations

from collections.abc import Callable

from sessiond.model.values import JsonObject
from sessiond.rpc.envelope import encode_json

_EVERY_S = 0.1


class WorkDone:
    """Begins when created. `report` takes the service's values; `message` and `percentage` are LSP's, other keys are passed
    on.
    """

    def __init__(
        self,
        notify: Callable[[str, bytes], bool],
        token: int | str,
        title: str,
        clock: Callable[[], float],
        ended: Callable[[], object],
    ) -> None:
        self._notify = notify
        self._token = token
        self._clock = clock
        self._ended = ended
        self._last = clock() - _EVERY_S
        self._send({"kind": "begin", "title": title, "cancellable": True})

    def report(self, value: JsonObject) -> None:
        now = self._clock()
        if now - self._last >= _EVERY_S:
            self._last = now
            self._send({**value, "kind": "report"})

    def end(self, message: str = "") -> None:
        self._ended()
        self._send({"kind": "end", "message": message} if message else {"kind": "end"})

    def _send(self, value: JsonObject) -> None:
        self._notify("$/progress", encode_json({"token": self._token, "value": value}))
