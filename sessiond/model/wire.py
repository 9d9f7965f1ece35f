"""Values as JSON for a client, whatever file names are among them.

A file name need not be UTF-8, and JSON has to be. The bytes of it that are not text are shown as U+FFFD: a path is for
people and logs. What a client names a session by, the id, keeps every byte (`formats/names.py`).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def writable(text: str) -> str:
    """The text, U+FFFD for each lone surrogate: Python's word for a byte of a file name that is not UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(value: Any) -> bytes:
    """As JSON. Raises what the encoder raises where it is not JSON, but never because of a text in it."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_writable(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def _writable(value: Any) -> Any:
    match value:
        case str():
            return writable(value)
        case dict():
            return {_writable(key): _writable(one) for key, one in value.items()}
        case list() | tuple():
            return [_writable(one) for one in value]
        case _:
            return value
