"""Protocol Buffers without a schema: the fields of a message by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 20

Fields: TypeAlias = dict[int, list[Any]]
"""Of each field number its values, in order: bytes of a length, other values as integers."""


class NotProtobuf(ValueError):
    """The bytes are not a message."""


def fields(data: bytes) -> Fields:
    """The fields of a message. Raises NotProtobuf."""
    found: Fields = {}
    for number, value in _pairs(data):
        found.setdefault(number, []).append(value)
    return found


def _pairs(data: bytes) -> Iterator[tuple[int, object]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotProtobuf(f"a field of unknown kind {kind}")
        if number == 0 or at + size > len(data):
            raise NotProtobuf("a field that is cut off")
        piece = data[at : at + size]
        yield number, piece if kind == _BYTES else int.from_bytes(piece, "little")
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise NotProtobuf("a number that is cut off")


def text(found: Fields, number: int) -> str:
    """A field that is known to be a text; empty if it is missing."""
    value = found.get(number, [b""])[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def inner(found: Fields, number: int) -> Fields:
    """A field that is known to be a message; empty if it is missing. Raises NotProtobuf."""
    value = found.get(number, [b""])[0]
    return fields(value) if isinstance(value, bytes) else {}


def plain(data: bytes, depth: int = 0) -> object:
    """Bytes of unknown meaning as JSON: a text if they read as one, else a message by field number, else hexadecimal digits."""
    try:
        shown = data.decode()
        if shown.isprintable() or all(one.isprintable() or one in "\n\r\t" for one in shown):
            return shown
    except UnicodeDecodeError:
        pass
    try:
        found = fields(data) if depth < _MAX_DEPTH else {}
    except NotProtobuf:
        found = {}
    if not found:
        return data.hex()
    values = {
        str(number): [plain(one, depth + 1) if isinstance(one, bytes) else one for one in many]
        for number, many in found.items()
    }
    return {number: many[0] if len(many) == 1 else many for number, many in values.items()}
