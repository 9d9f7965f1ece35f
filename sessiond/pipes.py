"""Frames on the pipes between the daemon and the processes that work for it.

frame   length (4 bytes, little endian) and so many bytes
"""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct("<I")


def read_frame(file: IO[bytes]) -> bytes | None:
    """The next frame's bytes; None at the end, also where the end cuts a frame."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    return data if len(data) == length else None


def write_frame(file: IO[bytes], data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    file.flush()
