"""Finds the messages of a Gemini CLI checkpoint that are there already under another id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sessiond.importers.gemini_message import calls_of
from sessiond.importers.record import digest_of
from sessiond.model.values import JsonObject, WireObject

Sign: TypeAlias = bytes
"""A digest of what a message says and calls."""


class View:
    """The messages that the model is sent at a place of the file, as signs: those of the last checkpoint, and those after it."""

    def __init__(self) -> None:
        self._signs: dict[str, Sign] = {}

    def add(self, message: WireObject) -> None:
        """A message, or its next version."""
        if (sign := _sign(message)) is not None:
            self._signs[message["id"]] = sign

    def rewind(self, target: str) -> None:
        """Take back everything from that message on; everything if it is not there."""
        ids = list(self._signs)
        for message_id in ids[ids.index(target) if target in self._signs else 0 :]:
            del self._signs[message_id]

    def become(self, messages: Sequence[WireObject]) -> list[tuple[str, str]]:
        """Take a checkpoint over. Returns its last messages that were there before, in order, as (id now, id before)."""
        new = [(one["id"], sign) for one in messages if (sign := _sign(one)) is not None]
        old = list(self._signs.items())
        self._signs = dict(new)
        return _same_end(new, old)


def _same_end(new: list[tuple[str, Sign]], old: list[tuple[str, Sign]]) -> list[tuple[str, str]]:
    """Return (new id, old id) of the messages that both end with. What comes last may be older than what was written last: a prompt
    is recorded before it is sent.
    """
    end = len(old)
    while end and new and old[end - 1][1] != new[-1][1]:
        end -= 1
    found: list[tuple[str, str]] = []
    for (new_id, new_sign), (old_id, old_sign) in zip(reversed(new), reversed(old[:end]), strict=False):
        if new_sign != old_sign:
            break
        found.insert(0, (new_id, old_id))
    return found


def _sign(message: JsonObject) -> Sign | None:
    """None for what is not sent as a message of its own: notices, and results, which belong to their calls."""
    if message.get("type") not in ("user", "gemini"):
        return None
    content = message.get("content")
    parts: list[object] = content if isinstance(content, list) else [content]
    calls = [str(one.get("id")) for one in calls_of(message)]
    said: list[object] = []
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("functionCall"), dict):
            calls.append(str(part["functionCall"].get("id")))
        elif isinstance(part, dict) and "functionResponse" not in part:
            said.append(part.get("text", part))
        elif isinstance(part, str) and part:
            said.append(part)
    if not said and not calls:
        return None
    return digest_of([message["type"], said, calls])
