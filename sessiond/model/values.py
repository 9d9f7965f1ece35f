"""Values that every layer shares: ids, timestamps and the JSON that may be stored. No clock, no I/O."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sessiond.errors import InvalidParams
from sessiond.limits import INT64_MIN, MAX_JSON_DEPTH, UINT64_MAX

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NORMAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d\.\d{3}Z", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)
_LOOSE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:([Zz])|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

if TYPE_CHECKING:
    Json: TypeAlias = object
    JsonObject: TypeAlias = dict[str, object]
else:  # msgspec reads the annotations of structs when the program runs, and it need not check these values
    Json = Any
    JsonObject = dict[str, Any]
"""`Json`: None, bool, int (64 bits), finite float, str without lone surrogates, list[Json], dict[str, Json]. `JsonObject`: an object
with arbitrary keys of other programs. mypy lets nobody use a value of it before somebody has looked.
"""
WireObject: TypeAlias = dict[str, Any]
"""An object of the protocol or of the journal, such as a message, whose values have been checked."""


def is_session_id(text: str) -> bool:
    """Return whether a client may give a session this id (without its store)."""
    return SESSION_ID.fullmatch(text) is not None


def split_wire_id(wire_id: str) -> tuple[str, str]:
    """`"lisp/session-1"` -> `("lisp", "session-1")`; without a store, the default one."""
    store, slash, local = wire_id.partition("/")
    return (store, local) if slash else ("default", wire_id)


def join_wire_id(store: str, local_id: str) -> str:
    return local_id if store == "default" else f"{store}/{local_id}"


def timestamp(epoch_ms: int) -> str:
    """Milliseconds since 1970 (UTC) -> `2026-01-11T14:30:22.000Z`. Raises OverflowError outside years 1..9999."""
    second, millis = divmod(epoch_ms, 1000)
    return f"{_second(second)}.{millis:03d}Z"


@lru_cache(maxsize=16)
def _second(epoch_s: int) -> str:
    moment = _EPOCH + timedelta(seconds=epoch_s)
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0")


def epoch_ms(text: str) -> int:
    """Any time that `normal_timestamp` accepts, in milliseconds since 1970. Raises ValueError."""
    try:
        # Exact integer arithmetic: a float of seconds loses the last millisecond now and then.
        return _since_epoch(text.strip()) // timedelta(milliseconds=1)
    except (OverflowError, OSError) as error:  # a year outside the range of local time
        raise ValueError(f"not a time in the years 1 to 9999: {text!r}") from error


def _since_epoch(text: str) -> timedelta:
    match = _LOOSE.fullmatch(text)
    if match is None:
        moment = datetime.fromisoformat(text)  # week dates, and dates without hyphens
        return (moment if moment.tzinfo else moment.astimezone()) - _EPOCH
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    micros = int((match[7] or "0").ljust(9, "0")[:6])
    leap = second == 60  # a leap second is the next minute's first for us
    moment = datetime(year, month, day, hour, minute, 59 if leap else second, micros)
    if match[8]:
        moment = moment.replace(tzinfo=UTC)
    elif match[9]:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        moment = moment.replace(tzinfo=timezone(offset if match[9] == "+" else -offset))
    else:
        moment = moment.astimezone()
    return moment - _EPOCH + timedelta(seconds=1 if leap else 0)


def normal_timestamp(text: str) -> str:
    """A time as written in a file -> the protocol's shape (UTC, milliseconds). Raises ValueError.

    Accepts RFC 3339, also without a zone (then local time) or with a blank for the T, and other forms of ISO 8601. Times
    from clients go through `strict_timestamp`.
    """
    if _NORMAL.fullmatch(text):
        datetime.fromisoformat(text[:19])
        if text[11:13] != "24":  # newer Pythons take this as the next day's first hour
            return text
    try:
        return timestamp(epoch_ms(text))
    except OverflowError as error:
        raise ValueError(f"not a time in the years 1 to 9999: {text!r}") from error


def strict_timestamp(text: str) -> str:
    """A time as a client sends it -> the protocol's shape. Raises ValueError unless it is RFC 3339 with a zone.

    Upper and lower case, any offset, any number of digits after the point (cut to milliseconds), and a leap second at the
    end of a day in UTC (the next day's first second) are allowed; the year 0 is not.
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not an RFC 3339 timestamp: {text!r}")
    normal = normal_timestamp(text)
    if text[17:19] == "60" and normal[11:19] != "00:00:00":
        raise ValueError(f"not a leap second: {text!r}")
    return normal


def derived_id(parts: Iterable[str], nth: int = 0) -> str:
    """An id for a message without one: the same for the same parts, after every restart and every import.

    `nth` counts equal messages of one session from 0, so that the same text twice makes two messages.
    """
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    digest.update(b"#%d" % nth)
    return "m-" + digest.hexdigest()[:20]


def is_derived_id(text: str) -> bool:
    """Return whether `derived_id` may have made an id."""
    return len(text) == 22 and text.startswith("m-")


def check_json(value: object, where: str, depth: int = 0) -> None:
    """Raise InvalidParams if `value` cannot be stored: depth, surrogates, non-finite floats, integers over 64 bits.

    Iterative, so that hostile depth does not use the stack. `where` names the field in the message.
    """
    stack: list[tuple[object, int]] = [(value, depth)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, str):
            if not item.isascii() and not is_encodable(item):
                raise InvalidParams(f"{where}: a lone surrogate cannot be stored", field=where)
        elif isinstance(item, bool) or item is None:
            continue
        elif isinstance(item, int):
            if not INT64_MIN <= item <= UINT64_MAX:
                raise InvalidParams(f"{where}: the integer {item} does not fit into 64 bits", field=where)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidParams(f"{where}: {item} is not a JSON number", field=where)
        elif isinstance(item, (list, dict)):
            if level >= MAX_JSON_DEPTH:
                raise InvalidParams(f"{where}: nested deeper than {MAX_JSON_DEPTH}", field=where)
            children = item.values() if isinstance(item, dict) else item
            stack.extend((child, level + 1) for child in children)
            if isinstance(item, dict):
                stack.extend((key, level + 1) for key in item)
        else:
            raise InvalidParams(f"{where}: {type(item).__name__} is not JSON", field=where)


def is_encodable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def same_json(a: Any, b: Any) -> bool:
    """Equality of JSON values; unlike Python's `==`, true is not 1 and 1 is not 1.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(key in b and same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return bool(a == b)


OWN_TOOL = "sessiond"
"""The tool of sessions that were not imported."""


def tool_of(metadata: JsonObject) -> str:
    """The tool that a session was imported from, by its metadata."""
    source = metadata.get("source")
    tool = source.get("tool") if isinstance(source, dict) else None
    return tool if isinstance(tool, str) and tool else OWN_TOOL


def source_path(metadata: JsonObject) -> str | None:
    """The file that a session was imported from, by its metadata; None if it was not imported."""
    source = metadata.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    return path if isinstance(path, str) and path else None


RECORDS = "records"
"""In the metadata of an imported session: the unknown records of its source, which are not messages, as they were.
They may be large, so no SessionInfo shows them; files and exports have them.
"""


def without_records(metadata: JsonObject) -> JsonObject:
    """Metadata as a SessionInfo shows it. The session's own `records` are shown if it was not imported."""
    if RECORDS not in metadata or tool_of(metadata) == OWN_TOOL:
        return metadata
    return {key: value for key, value in metadata.items() if key != RECORDS}


def with_records(metadata: JsonObject, before: JsonObject) -> JsonObject:
    """Return what a client makes of the metadata `before`, with the records that it was not shown; none if it takes `source` away."""
    hidden = RECORDS in before and without_records(before) is not before
    if not hidden or RECORDS in metadata or tool_of(metadata) == OWN_TOOL:
        return metadata
    return {**metadata, RECORDS: before[RECORDS]}
