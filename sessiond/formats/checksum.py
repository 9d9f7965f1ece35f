"""The checksum of everything written into an appended main file. The sidecar keeps it and each append continues it, so that
decay of the file is noticed, and a single flipped bit can be found and flipped back.

docs/decisions/0009-sums-of-native-files.md says what is noticed and what is not.
"""

from __future__ import annotations

import zlib

import msgspec

from sessiond.formats.base import Unlike
from sessiond.formats.sidecar_file import Appending, Sidecar

_ONES = 0xFFFFFFFF


def sealed(content: bytes, through: int) -> Appending:
    """The intent for a file that was written whole or accepted as it is: an append of nothing at its end."""
    total = zlib.crc32(content)
    return Appending(size=len(content), length=0, crc=0, anchor=0, through=through, before=total, after=total)


def seal_on(seal: Appending, data: bytes) -> Appending:
    """The same with `data` added at the end of the file."""
    assert seal.after is not None
    total = zlib.crc32(data, seal.after)
    return msgspec.structs.replace(seal, size=seal.size + len(data), before=total, after=total)


def unlike(side: Sidecar | None, main: bytes) -> Unlike | None:
    """None if the file is as it was written, or if that is unknown. Anything that somebody added at its end is ignored."""
    intent = side.append if side else None
    if intent is None or intent.before is None or intent.after is None:
        return None
    whole = len(main) >= intent.size + intent.length  # otherwise the last append was cut short or never happened
    size, expected = (intent.size + intent.length, intent.after) if whole else (intent.size, intent.before)
    return None if zlib.crc32(memoryview(main)[:size]) == expected and len(main) >= size else Unlike(size, expected)


def flipped_bit(main: bytes, unlike: Unlike) -> tuple[int, int] | None:
    """(offset, mask) of the one bit that differs, or None if more differs.

    The difference of two sums is the sum of the difference: one bit followed by zeros. It is traced back from the end.
    """
    if len(main) < unlike.size:
        return None
    back = [0] * 256
    for low in range(256):
        back[_TABLE[low] >> 24] = low
    masks = {_TABLE[1 << bit]: 1 << bit for bit in range(8)}
    register = zlib.crc32(memoryview(main)[: unlike.size]) ^ unlike.expected
    for offset in range(unlike.size - 1, -1, -1):
        if register in masks:
            return offset, masks[register]
        low = back[register >> 24]
        register = ((register ^ _TABLE[low]) << 8 & _ONES) | low
    return None


_TABLE = [zlib.crc32(bytes([byte]), _ONES) ^ _ONES for byte in range(256)]
"""The register after each single byte, starting from an empty one."""
