"""Checks whether a copy says what was to be written: read with the importer of its tool, and compared turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from sessiond.errors import SessiondError
from sessiond.exporters.conversation import ExportedTurn, conversation, result_of
from sessiond.importers.jsontext import fit
from sessiond.importers.record import Event, MessageRecord
from sessiond.model.message import Message
from sessiond.resume.target import NOT_A_COMMAND

Plain: TypeAlias = tuple[Any, ...]
_GUESSED = ("injected", "command")
"""Marks that importers put on texts that look like a tool's own."""


class CopyDiffers(SessiondError):
    """The tool would be told something else than the session says. `data["turn"]`: the first one that differs, from 1."""

    kind = "internalError"


def compare(written: list[ExportedTurn], events: Iterable[Event]) -> None:
    """CopyDiffers unless the events tell the turns that were written."""
    messages = [_message(one.message) for one in events if isinstance(one, MessageRecord)]
    wanted = list(map(plain, written))
    found = list(map(plain, conversation(messages).turns))
    if found == wanted:
        return
    pairs = zip(wanted, found, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(found)))
    message = f"the copy reads back differently (turn {place + 1} of {len(wanted)}), so it was removed"
    raise CopyDiffers(message, hint="please report it as a bug of sessiond", turn=place + 1)


def _message(wire: dict[str, Any]) -> Message:
    metadata = {key: value for key, value in wire.get("metadata", {}).items() if key not in _GUESSED}
    return Message.from_wire({**wire, "seq": 0, "metadata": metadata})


def plain(turn: ExportedTurn) -> Plain:
    """Return what a turn says, as a value that can be compared."""
    calls = [
        (call.id, call.name, fit(call.arguments), [_plain_block(block) for block in result_of(call)])
        for call in turn.calls
    ]
    return turn.role, [_plain_block(block) for block in turn.blocks if block.get("text") != NOT_A_COMMAND], calls


def _plain_block(block: dict[str, Any]) -> Plain:
    if block["type"] == "text":
        return "text", block["text"]
    source = block["source"]
    return "image", source.get("media_type"), source.get("data", source.get("url"))
