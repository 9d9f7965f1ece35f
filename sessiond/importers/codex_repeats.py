"""Tells which events of a Codex rollout say what its items do not: most of them repeat an item for the screen."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from sessiond.importers.bytestream import utf8
from sessiond.importers.record import Event, Opener
from sessiond.model.values import JsonObject

_PATIENCE = 4
"""How many response items an event waits for, in case one of them repeats it."""


class WaitingRecord(msgspec.Struct):
    """An event or a user's item that waits for later records."""

    line: int
    record: JsonObject
    payload: JsonObject
    text: str
    age: int = 0
    events: list[Event] | None = None
    """What becomes of an event, once that is known: nothing, if an item says the same."""

    def says(self, text: str) -> bool:
        return self.text.strip() == text.strip()


Emit: TypeAlias = Callable[[WaitingRecord], Iterator[Event]]


class CodexRepeats:
    """Everything that was read, in order; nothing overtakes an event that waits. `emit`: the message of an event that no item
    repeats.
    """

    def __init__(self, ignored: Counter[str], emit: Emit) -> None:
        self._ignored = ignored
        self._emit = emit
        self._waiting: list[WaitingRecord] = []
        self._queue: deque[Event | WaitingRecord] = deque()
        self._last: dict[str, str] = {}
        """By kind of event: the text of the last item that it may repeat."""

    def put(self, event: Event) -> None:
        self._queue.append(event)

    def wait(self, said: WaitingRecord) -> None:
        self._waiting.append(said)
        self._queue.append(said)

    def ready(self) -> Iterator[Event]:
        """Yield the events that come before everything that waits."""
        while self._queue:
            head = self._queue[0]
            if isinstance(head, WaitingRecord) and head.events is None:
                return
            self._queue.popleft()
            if isinstance(head, WaitingRecord):
                yield from head.events or ()
            else:
                yield head

    def match(self, kind: str | None = None, text: str | None = None) -> None:
        """A response item has arrived, which an event of this kind with this text repeats: drop those that say the same, and emit
        those that have waited long enough.
        """
        waiting: list[WaitingRecord] = []
        paired = False
        for said in self._waiting:
            event = str(said.payload["type"])
            same_kind = event == kind and text is not None
            # An event right before its item is the same even if the texts differ (a reasoning item joins several).
            beside = said.age == 0 and (not paired or event == "agent_reasoning")
            if (same_kind and (said.says(text or "") or beside)) or said.says(self._last.get(event, "\0")):
                paired = paired or same_kind
                self._ignored[f"event_msg/{event}"] += 1
                said.events = []
                continue
            said.age += 1
            if said.age > _PATIENCE:
                said.events = list(self._emit(said))
            else:
                waiting.append(said)
        self._waiting = waiting
        if kind is not None and text is not None:
            self._last[kind] = text

    def settle(self) -> None:
        """Emit everything that waits, because nothing more will come for it."""
        self.match()
        for said in self._waiting:
            said.events = list(self._emit(said))
        self._waiting = []


def contains(path: str, open_: Opener, *needles: bytes) -> bool:
    """Return whether the file has any of these bytes."""
    longest = max(map(len, needles))
    with utf8(path, open_) as file:
        before = b""
        while chunk := file.read(1 << 18):
            if any(needle in before + chunk for needle in needles):
                return True
            before = chunk[-longest:]
    return False
