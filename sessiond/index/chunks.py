"""Texts <-> stored bytes. Pure, stdlib only: the regex worker reads them too.

The texts of many messages lie compressed in one chunk, because small texts alone do not compress, and because every
call of zlib gives the interpreter lock away. A document is (chunk, offset, size) and packed as

    text     = kind (1 byte) length (4 bytes, little endian, of the UTF-8) UTF-8
    document = text of kind `key` { text }
    chunk    = zlib({ document })

The key is the id of the message or note, empty for a session's name.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

KINDS = ("text", "tool", "thought", "key")
CHUNK_BYTES = 8192
"""A chunk is closed once it holds this much; one that a longer text is in is longer."""

_HEAD = struct.Struct("<BI")
_CODES = {kind: code for code, kind in enumerate(KINDS)}


class DamagedChunk(ValueError):
    """What was read is no chunk: the index file is broken."""


def pack(key: str, texts: Iterable[tuple[str, str]]) -> bytes:
    """A key and (kind, text) pairs as stored. Lone surrogates, which no store should let through, become question marks."""
    out = []
    for kind, text in (("key", key), *texts):
        raw = text.encode("utf-8", "replace")
        out.append(_HEAD.pack(_CODES[kind], len(raw)))
        out.append(raw)
    return b"".join(out)


def unpack(packed: bytes) -> tuple[str, list[tuple[str, str]]]:
    """The inverse of `pack`. Raises DamagedChunk on anything else."""
    found = []
    at = 0
    try:
        while at < len(packed):
            code, length = _HEAD.unpack_from(packed, at)
            at += _HEAD.size + length
            if at > len(packed):
                raise DamagedChunk("a text is cut short")
            found.append((KINDS[code], packed[at - length : at].decode()))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedChunk(str(error)) from error
    if not found or found[0][0] != "key":
        raise DamagedChunk("a document has no key")
    return found[0][1], found[1:]


def compress(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def decompress(data: bytes) -> bytes:
    """Raises DamagedChunk."""
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise DamagedChunk(str(error)) from error
