"""Texts <-> stored bytes. Pure; the regex worker, which imports little, uses this too.

The texts of many messages are compressed in one chunk, because small texts alone do not compress well, and because every
compression releases the interpreter lock. A document is (chunk, offset, size) and packed as

    text     = kind (1 byte) length (4 bytes, little endian, of the UTF-8) UTF-8
    document = text of kind `key` { text }
    chunk    = a Zstandard frame, with its sum, of { document }

The key is the id of the message or note, empty for a session's name. The documents of a chunk have consecutive ids. `starts`
says where each begins, so that a place in a chunk leads to its document.
"""

from __future__ import annotations

import struct
import sys
import threading
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from os.path import dirname
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

KINDS = ("text", "tool", "thought", "key")
CHUNK_BYTES = 32768
"""A chunk is closed once it holds this much; a chunk with a longer text is longer. Small chunks compress less, and take twice
as long to read for each byte; large ones make a page of hits slow.
"""

_LEVEL = 2
_HEAD = struct.Struct("<BI")
_CODES = {kind: code for code, kind in enumerate(KINDS)}
_KEY, _THOUGHT = _CODES["key"], _CODES["thought"]


class DamagedChunk(ValueError):
    """The bytes are not a chunk: the index file is damaged."""


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


def texts_in(packed: bytes, start: int, end: int) -> list[str]:
    """The texts of the document in `packed[start:end]` that are not thoughts; none if it was blanked. Raises DamagedChunk."""
    found: list[str] = []
    try:
        code, length = _HEAD.unpack_from(packed, start)
        at = start + _HEAD.size + length
        while code == _KEY and at < end:
            kind, length = _HEAD.unpack_from(packed, at)
            at += _HEAD.size + length
            if kind != _THOUGHT:
                found.append(packed[at - length : at].decode())
    except (struct.error, UnicodeDecodeError) as error:
        raise DamagedChunk(str(error)) from error
    return found


def packed_starts(starts: Sequence[int]) -> bytes:
    """32 bits each, little endian."""
    return _little(array("I", starts)).tobytes()


def unpacked_starts(data: bytes) -> array[int]:
    """The inverse of `packed_starts`. Raises DamagedChunk."""
    starts = array("I")
    try:
        starts.frombytes(data)
    except ValueError as error:
        raise DamagedChunk(str(error)) from error
    return _little(starts)


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def compress(data: bytes) -> bytes:
    return _tools().compressor.compress(data)


def decompress(data: bytes) -> bytes:
    """Raises DamagedChunk."""
    tools = _tools()
    try:
        return tools.decompressor.decompress(data)
    except (tools.error, MemoryError) as error:  # a damaged header may ask for any amount
        raise DamagedChunk(str(error)) from error


@cache
def library() -> str:
    """The folder that the compression library is imported from, for the path of a bare interpreter."""
    import zstandard

    return dirname(dirname(zstandard.__file__))


class _Tools(threading.local):
    """The tools of one thread: they must not be shared. Created when first needed, because most starts of a daemon do not read chunks."""

    def __init__(self) -> None:
        import zstandard

        self.compressor: ZstdCompressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.decompressor: ZstdDecompressor = zstandard.ZstdDecompressor()
        self.error = zstandard.ZstdError


@cache
def _tools() -> _Tools:
    return _Tools()
