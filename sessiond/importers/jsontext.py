"""JSON as tools write it: decoded fast if it is well-formed, otherwise repaired, and made fit to be kept.

Kept values obey `model.values.check_json`: no lone surrogates, finite numbers, 64-bit integers, bounded depth.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from sessiond.limits import INT64_MIN, UINT64_MAX
from sessiond.model.values import is_encodable

MAX_DEPTH = 90
"""The limit for one message. The wire allows 100, and a message is sent inside a few more containers."""
_MANY_BRACKETS = 80
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode
_check_numbers = msgspec.msgpack.Encoder().encode


class NotJson(ValueError):
    """The text is not JSON and cannot be repaired. The message says why."""


def decode(raw: bytes) -> tuple[object, str | None]:
    """The value, and a description of the repairs (None if there were none). Raises NotJson."""
    try:
        return _decode(raw), None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_loosely(raw)


def _decode_loosely(raw: bytes) -> tuple[object, str | None]:
    repairs = []
    bare = raw.strip(b"\0 \t\r\n")
    if b"\0" in raw and bare != raw.strip():
        repairs.append("removed NUL bytes")
        if not bare:
            raise NotJson("only NUL bytes")
    text = bare.decode("utf-8", "replace")
    if "\ufffd" in text and "\ufffd".encode() not in bare:
        repairs.append("replaced bytes that are not valid UTF-8")
    try:
        value = json.loads(text, strict=False, parse_float=_finite, parse_constant=str)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"not valid JSON: {error}") from None
    fitted = fit(value)
    if fitted is not value:
        repairs.append("replaced values that cannot be kept")
    return fitted, ", ".join(repairs) or None


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def is_fit(value: object, encoded: bytes | None = None, flat: int = 0) -> bool:
    """Return whether `value` may be kept as it is. `encoded` (its JSON) makes the usual case cheap for values that came from JSON,
    which has no infinite numbers. Its first `flat` bytes have no lists or objects in each other.
    """
    if (
        encoded is not None
        and encoded.count(b"[", flat) + encoded.count(b"{", flat) < _MANY_BRACKETS
        and _small_numbers(value)
    ):
        return True
    return fit(value) is value


def _small_numbers(value: object) -> bool:
    """MessagePack allows only 64-bit integers, so its encoder is the fastest check."""
    try:
        _check_numbers(value)
    except (OverflowError, UnicodeEncodeError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def fit(value: object, room: int = MAX_DEPTH) -> Any:
    """`value` itself if it may be kept, otherwise a copy with replacements: a lone surrogate becomes U+FFFD, a number out
    of range becomes its digits as a string, and anything nested deeper than `room` becomes its JSON as a string.
    """
    if isinstance(value, str):
        return (
            value
            if value.isascii() or is_encodable(value)
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if INT64_MIN <= value <= UINT64_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if not isinstance(value, (list, dict)):
        return str(value)
    if room <= 0:
        return as_text(value)
    if isinstance(value, list):
        items = [fit(item, room - 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    pairs = [(fit(key, room - 1), fit(item, room - 1)) for key, item in value.items()]
    same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(pairs, value.items(), strict=True))
    return value if same else dict(pairs)


def as_text(value: object) -> str:
    """Any JSON value as text on one line, or a remark if it is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    except RecursionError:
        return "[nested too deeply]"


def encoded(value: object) -> bytes | None:
    """The JSON of a value, with its keys in order, or None if it cannot be written as it is."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, RecursionError, OverflowError, msgspec.MsgspecError):
        return None
