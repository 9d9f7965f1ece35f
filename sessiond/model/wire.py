"""Encodes values as JSON for a client, even if they contain odd file names.

A file name need not be UTF-8, but JSON must be. Bytes that are not text are shown as U+FFFD: a path is for people and logs.
The id by which a client names a session keeps every byte (`formats/names.py`).
"""

from __future__ import annotations

import re

import msgspec

_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def writable(text: str) -> str:
    """The text, with U+FFFD for each lone surrogate: Python's form of a byte in a file name that is not UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(value: object) -> bytes:
    """Encode a value as JSON. Raises the encoder's error if it is not JSON, but never because of a text in it."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_writable(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def _writable(value: object) -> object:
    match value:
        case str():
            return writable(value)
        case dict():
            return {_writable(key): _writable(one) for key, one in value.items()}
        case list() | tuple():
            return [_writable(one) for one in value]
        case _:
            return value
