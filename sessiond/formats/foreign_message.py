"""Reads message objects that other programs wrote, as far as the protocol can hold them. Everything else stays only in
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sessiond.errors import InvalidParams
from sessiond.model.message import check_tool_calls
from sessiond.model.session import UPDATABLE
from sessiond.model.values import Json, normal_timestamp, timestamp

HEAD = ("id", "seq", "role", "content", "timestamp", "status")
_MAX_SEQ = 2**53
_DONE = ("done", "interrupted", "error")


def usable_id(value: Json) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 256 else None


def usable_seq(value: Json) -> int | None:
    return value if type(value) is int and 0 < value < _MAX_SEQ else None


def usable_status(value: Json) -> str | None:
    """Nobody streams into a file, so a reply that is still marked as streaming there will never be finished."""
    return value if isinstance(value, str) and value in _DONE else None


def usable_time(value: Json) -> str | None:
    """RFC 3339 text, or a number of milliseconds since 1970, in the protocol's form; None for anything else."""
    try:
        if isinstance(value, str):
            return normal_timestamp(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return timestamp(int(value // 1))
    except (ValueError, OverflowError):
        pass
    return None


def usable_rest(fields: Mapping[str, Json]) -> dict[str, Json]:
    """All fields except those in HEAD and those that the protocol names but that have another type here."""
    return {key: value for key, value in fields.items() if key not in HEAD and _fits(key, value)}


def _fits(key: str, value: Json) -> bool:
    match key:
        case "toolCallId" | "thinking" | "thread":
            return value is None or isinstance(value, str)
        case "tick":
            return value is None or type(value) is int
        case "metadata":
            return value is None or isinstance(value, dict)
        case "toolCalls":
            try:
                check_tool_calls(value, "toolCalls")
            except InvalidParams:
                return False
    return True


def usable_fields(fields: Json) -> dict[str, Json]:
    """SessionInfo fields of a file that anyone may have edited. TypeError or ValueError if one has the wrong type."""
    if not isinstance(fields, Mapping):
        raise TypeError("its fields are not an object")
    found = {key: value for key, value in fields.items() if key in UPDATABLE}
    for key, value in found.items():
        if not _FIELDS[key](value):
            raise ValueError(f"{key} has the wrong type")
    return found


def _text_or_none(value: Json) -> bool:
    return value is None or isinstance(value, str)


_FIELDS: dict[str, Callable[[Json], bool]] = {
    "name": _text_or_none,
    "model": _text_or_none,
    "cwd": _text_or_none,
    "summary": _text_or_none,
    "tags": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "archived": lambda value: isinstance(value, bool),
    "parent": lambda value: value is None or isinstance(value, dict),
    "metadata": lambda value: isinstance(value, dict),
}
