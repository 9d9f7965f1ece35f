"""The user's words in a Codex rollout, and what Codex itself put under the user's role: only the former have a `user_message`
event next to their item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from sessiond.importers.codex_repeats import CodexRepeats, Emit, WaitingRecord, contains
from sessiond.importers.record import Event, Opener

_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions instructions|turn_aborted|"
    r"skill|user_shell_command|collaboration_mode|subagent_notification)\b|# AGENTS\.md instructions)"
)
_REPEATED = "event_msg/user_message"
_EVENTS = (b'"user_message"', b'"UserMessage"')


class UserWords:
    """Put in items and events as they come; `settle` before anything else of the conversation. `say_item(said, injected)` and
    `say_event` make messages.
    """

    def __init__(
        self,
        path: str,
        open_: Opener,
        ignored: Counter[str],
        repeats: CodexRepeats,
        say_item: Callable[[WaitingRecord, bool], Iterator[Event]],
        say_event: Emit,
    ) -> None:
        self._path = path
        self._open = open_
        self._ignored = ignored
        self._repeats = repeats
        self._say_item = say_item
        self._say_event = say_event
        self._item: WaitingRecord | None = None
        self._event: WaitingRecord | None = None
        self._has_events: bool | None = None

    def item(self, said: WaitingRecord) -> Iterator[Event]:
        event = self._event
        if event is not None and event.says(said.text):
            self._event = None
            self._ignored[_REPEATED] += 1
            yield from self.settle()
            yield from self._say_item(said, False)
            return
        yield from self.settle()
        self._repeats.match()
        self._item = said

    def event(self, said: WaitingRecord) -> Iterator[Event]:
        if self._item is not None and not self._item.says(said.text) and self._event is None:
            self._event = said
        elif self._item is not None:
            yield from self.settle(said)
        else:
            yield from self.settle()
            self._event = said

    def settle(self, event: WaitingRecord | None = None) -> Iterator[Event]:
        """Decide about the waiting item. `event`: the `user_message` that came right after it."""
        event, self._event = event or self._event, None
        said, self._item = self._item, None
        if said is not None:
            self._ignored[_REPEATED] += event is not None
            injected = event is None and (_INJECTED.match(said.text) is not None or self._may_tell())
            yield from self._say_item(said, injected)
        elif event is not None:
            yield from self._say_event(event)

    def stands_with(self, lines: Sequence[bytes]) -> bool:
        """Return whether what was decided so far stands if these lines follow."""
        return self._has_events is not False or not any(event in line for line in lines for event in _EVENTS)

    def _may_tell(self) -> bool:
        """Return whether the file has any events of a user's words: only then does a missing one mean anything."""
        if self._has_events is None:
            self._has_events = contains(self._path, self._open, *_EVENTS)
        return self._has_events
