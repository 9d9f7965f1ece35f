"""Finds the records of a Gemini CLI file that count: the last version of each message, and what a checkpoint alone has.

A compression gives new ids to the messages that it keeps. They are found again at the end of what the model was sent before.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.alone import failed_on
from sessiond.importers.document import items, members
from sessiond.importers.gemini_kept import View
from sessiond.importers.gemini_message import ROLES, calls_of, completed, words
from sessiond.importers.lines import objects
from sessiond.importers.record import Opener, SkippedLine
from sessiond.model.values import JsonObject, WireObject

_ARRAYS = frozenset({"messages"})


def entries(path: str, open_: Opener) -> Iterator[tuple[int, JsonObject] | SkippedLine]:
    if path.endswith(".jsonl"):
        yield from objects(path, open_)
        return
    number = 0
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element and isinstance(item.value, dict):
            # Elements may share a line; their order tells them apart.
            number += 1
            yield number, item.value


class Survey:
    """A survey of the whole file: the final header, and for each message id the line that counts and whether it was rewound."""

    def __init__(self, path: str, open_: Opener) -> None:
        self.about: JsonObject = members(path, open_, _ARRAYS) if path.endswith(".json") else {}
        self._last: dict[str, tuple[int, int]] = {}
        self._answered: set[str] = set()
        """Calls that hold their result."""
        self._told: set[str] = set()
        """Messages of checkpoints that were given on."""
        self._view = View()
        self._again: dict[str, str] = {}
        """Messages of checkpoints -> the id under which they are there already."""
        self._more: dict[str, object] = {}
        """Messages -> the content of a checkpoint that has more text for them."""
        self._length: dict[str, int] = {}
        """Messages -> characters of their text so far."""
        self._first_kept: dict[int, str] = {}
        """The line of a checkpoint -> the id of the first message that it kept."""
        self.failed: list[SkippedLine] = []
        """Records of which nothing is known, for an error of ours."""
        for entry in entries(path, open_):
            if isinstance(entry, SkippedLine):
                continue
            try:
                self._take(*entry)
            except Exception as error:  # what the other records say stands
                self.failed.append(failed_on(path, "what this record says of others", error, entry[0]))

    def _take(self, line: int, record: WireObject) -> None:
        if isinstance(record.get("$set"), dict):
            self.about |= {key: value for key, value in record["$set"].items() if key != "messages"}
            self._take_checkpoint(line, record["$set"].get("messages"))
        elif isinstance(record.get("$rewindTo"), str):
            target: str = record["$rewindTo"]
            _rewind(self._last, self._again.get(target, target))
            self._view.rewind(target)
        elif isinstance(record.get("id"), str):
            self._last.pop(record["id"], None)
            self._last[record["id"]] = (line, 0)
            self._length[record["id"]] = len(words(record.get("content")))
            self._view.add(record)
            self._answered |= {str(call.get("id")) for call in calls_of(record) if call.get("result") is not None}
        elif "sessionId" in record:  # once more whenever the session is resumed
            began = self.about.get("startTime") or record.get("startTime")
            self.about |= {key: value for key, value in record.items() if key != "messages"} | {"startTime": began}

    def _take_checkpoint(self, line: int, checkpoint: object) -> None:
        messages = [one for one in checkpoint if _is_message(one)] if isinstance(checkpoint, list) else []
        if not messages:
            return
        again = self._view.become(messages)
        self._again |= {new: self._again.get(old, old) for new, old in again if new != old}
        if again and again[0][0] != again[0][1]:
            self._first_kept[line] = self._again[again[0][0]]
        for one in messages:
            message_id, length = self._again.get(one["id"], one["id"]), len(words(one.get("content")))
            if length > self._length.setdefault(message_id, length):
                self._length[message_id], self._more[message_id] = length, one.get("content")

    def counted(self, line: int, record: WireObject) -> Iterator[tuple[JsonObject, JsonObject]]:
        """The messages of a line that count, each with what is to be known of it."""
        checkpoint = record["$set"].get("messages") if isinstance(record.get("$set"), dict) else None
        for message in checkpoint if isinstance(checkpoint, list) else []:
            if _is_message(message) and not self._is_here(message["id"]) and not self._repeats_results(message):
                self._told.add(message["id"])
                yield completed(message, self._more.get(message["id"])), self._marks(line, message)
        if _is_message(record):
            counts, rewound = self._last.get(record["id"], (line, 0))
            if counts == line and not self._repeats_results(record):
                yield completed(record, self._more.get(record["id"])), {"rewound": True} if rewound else {}

    def _is_here(self, message_id: str) -> bool:
        return message_id in self._last or message_id in self._told or message_id in self._again

    def _marks(self, line: int, message: JsonObject) -> JsonObject:
        """Return the marks of a message that only a checkpoint has."""
        marks: JsonObject = {"checkpoint": True}
        if message["type"] == "user":
            marks["injected"] = True
            if line in self._first_kept:
                marks["firstKeptEntryId"] = self._first_kept[line]
        return marks

    def _repeats_results(self, record: JsonObject) -> bool:
        """Return whether a record says nothing but results that their calls hold."""
        parts = record.get("content")
        if not isinstance(parts, list) or not parts:
            return False
        responses = [part.get("functionResponse") if isinstance(part, dict) else None for part in parts]
        return all(isinstance(one, dict) and str(one.get("id")) in self._answered for one in responses)


def unknown_kind(record: JsonObject) -> str | None:
    """An operator, or a type of message, that later versions may have."""
    operators = [key for key in record if key.startswith("$") and key not in ("$set", "$rewindTo")]
    if operators:
        return operators[0]
    if _is_message(record):
        return None if record["type"] in ROLES else str(record["type"])
    known = "sessionId" in record or "$set" in record or "$rewindTo" in record
    return None if known else str(record.get("type", "without a type"))


def _is_message(record: object) -> bool:
    return isinstance(record, dict) and isinstance(record.get("id"), str) and isinstance(record.get("type"), str)


def _rewind(last: dict[str, tuple[int, int]], target: str) -> None:
    """Mark everything from `target` on as taken back; it is kept."""
    reached = target not in last
    for message_id, (line, _) in list(last.items()):
        reached = reached or message_id == target
        if reached:
            last[message_id] = (line, 1)
