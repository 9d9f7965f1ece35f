"""Tells the log and every client when something can no longer be written, and when it can be again; and that the journal was
damaged, until that is acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from sessiond.journal import Loss
from sessiond.journal.segments import ReadOnlyState
from sessiond.schema.daemon import Damage
from sessiond.store.port import Event, HealthChanged, HubStatus, WatchChanged

_log = logging.getLogger(__name__)
_ERROR, _WARNING, _INFO = 1, 2, 3
"""LSP's MessageType."""


class DamagedJournal(Protocol):
    """The part of the journal that is needed here; `journal.writer.JournalWriter` implements it."""

    on_loss: Callable[[], None]

    def losses(self) -> list[Loss]: ...


class Health:
    """`tell(type, text)` reaches every client, `tell_all` also those that read slowly. `tell_hub(store, hub)` tells them of the hub
    of a shared store. All are set once there is a server.
    """

    def __init__(self) -> None:
        self.tell: Callable[[int, str], None] = lambda _type, _text: None
        self.tell_all: Callable[[int, str], None] = lambda _type, _text: None
        self.tell_hub: Callable[[str, HubStatus], None] = lambda _store, _hub: None
        self._journal: DamagedJournal | None = None

    # Damage

    def watch(self, journal: DamagedJournal) -> None:
        self._journal = journal
        journal.on_loss = self._more_damage

    def damage(self) -> list[Damage]:
        """For `daemon/status`."""
        found = self._journal.losses() if self._journal is not None else []
        return [Damage(path=one.path, records=one.records, since=one.since, reason=one.reason) for one in found]

    def greeting(self) -> list[tuple[int, str]]:
        """Return what a new client is told."""
        return [(_ERROR, text)] if (text := self._damage_in_words()) else []

    def _damage_in_words(self) -> str | None:
        found = self._journal.losses() if self._journal is not None else []
        if not found:
            return None
        records = sum(one.records for one in found)
        lost = (
            f"{records} of its records {'is' if records == 1 else 'are'} lost"
            if records
            else "no record is known to be lost"
        )
        where = ", ".join(one.path for one in found)
        return (
            f"sessiond's journal was damaged on the disk: {lost}. The bytes are in {where}. Compare the sessions "
            "of that time with a backup; `sessiond doctor` says more, and `sessiond doctor --acknowledge` ends this message."
        )

    def _more_damage(self) -> None:
        text = self._damage_in_words()
        if text is not None:
            _log.error("%s", text)
            self.tell_all(_ERROR, text)

    # What cannot be written

    def journal(self, state: ReadOnlyState | None) -> None:
        if state is None:
            self._say(_INFO, logging.INFO, "sessiond can write again")
        elif state.final:
            self._say(
                _ERROR,
                logging.ERROR,
                f"sessiond is read-only because its disk failed ({state.reason}). Nothing acknowledged is lost, and reading works. "
                "Repair the disk, then restart the daemon.",
            )
        else:
            self._say(
                _ERROR,
                logging.ERROR,
                f"sessiond cannot write now ({state.reason}). Nothing acknowledged is lost, and reading works. "
                "Writing resumes by itself once there is free space.",
            )

    def store(self, name: str, event: Event) -> None:
        """Tell the clients; the service writes the log line."""
        if isinstance(event, HealthChanged):
            if event.problem is None:
                self.tell(_INFO, f"the store {name} is usable again")
            else:
                self.tell(
                    _WARNING,
                    f"the store {name}: {event.problem.message}. What was acknowledged is safe in the journal.",
                )

        elif isinstance(event, WatchChanged):
            if event.problem is None:
                self.tell(_INFO, f"the store {name} is watched again")
            else:
                self.tell(_WARNING, f"the store {name}: {event.problem}")

    def hub(self, store: str, hub: HubStatus) -> None:
        """Tell clients that what is known of a store's hub has changed; the log line is the link's."""
        self.tell_hub(store, hub)

    def _say(self, to_clients: int, to_log: int, text: str) -> None:
        _log.log(to_log, "%s", text)
        self.tell(to_clients, text)
