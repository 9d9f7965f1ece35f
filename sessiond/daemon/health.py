"""Says to the log and to every client that something can no longer be written, and that it can again."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sessiond.journal.segments import ReadOnlyState
from sessiond.store.port import Event, HealthChanged

_log = logging.getLogger(__name__)
_ERROR, _WARNING, _INFO = 1, 2, 3
"""LSP's MessageType."""


class Health:
    """`tell(type, text)` reaches every client; it is set when there is a server to tell them."""

    def __init__(self) -> None:
        self.tell: Callable[[int, str], None] = lambda _type, _text: None

    def journal(self, state: ReadOnlyState | None) -> None:
        if state is None:
            self._say(_INFO, logging.INFO, "sessiond can write again")
        elif state.final:
            self._say(
                _ERROR,
                logging.ERROR,
                f"sessiond is read-only, for its disk failed ({state.reason}). Nothing acknowledged is lost, and reading works. "
                "Look after the disk, then start the daemon again.",
            )
        else:
            self._say(
                _ERROR,
                logging.ERROR,
                f"sessiond cannot write now ({state.reason}). Nothing acknowledged is lost, and reading works. "
                "It goes on by itself once there is room.",
            )

    def store(self, name: str, event: Event) -> None:
        """The store's own log line is the service's."""
        if isinstance(event, HealthChanged):
            if event.problem is None:
                self.tell(_INFO, f"the store {name} is well again")
            else:
                self.tell(_WARNING, f"the store {name}: {event.problem}. What was acknowledged is safe in the journal.")

    def _say(self, to_clients: int, to_log: int, text: str) -> None:
        _log.log(to_log, "%s", text)
        self.tell(to_clients, text)
