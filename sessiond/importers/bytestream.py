"""Bytes of a source as UTF-8: unpacks zstd, recodes UTF-16 with a byte order mark and drops a UTF-8 mark. Holds one chunk at
most.
"""

from __future__ import annotations

import codecs
import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from sessiond.importers.record import Opener

_CHUNK = 1 << 18


class _Recoded(io.RawIOBase):
    """A raw UTF-16 stream that reads as UTF-8. Invalid UTF-16 becomes U+FFFD."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        super().__init__()
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            chunk = self._raw.read(_CHUNK)
            self._waiting = self._decoder.decode(chunk, final=not chunk).encode("utf-8", "replace")
            if not chunk:
                break
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size


ZSTD = b"\x28\xb5\x2f\xfd"
"""What a file begins with that is packed with zstd."""


class _Unpacked(io.RawIOBase):
    """A raw zstd stream, unpacked. OSError if it is damaged."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        import zstandard  # most imports need none

        self._error = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._reader.read(len(buffer))
        except self._error as error:
            raise OSError(errno.EIO, f"damaged zstd data: {error}") from error
        buffer[: len(found)] = found
        return len(found)


@contextmanager
def utf8(path: str, open_: Opener) -> Iterator[BinaryIO]:
    """The file as a buffered stream of UTF-8 without a byte order mark. Raises OSError."""
    with open_(path) as raw:
        mark = raw.read(4)
        raw.seek(0)
        if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            yield cast("BinaryIO", io.BufferedReader(_Recoded(raw, "utf-16"), _CHUNK))
            return
        if mark == ZSTD:
            yield cast("BinaryIO", io.BufferedReader(_Unpacked(raw), _CHUNK))
            return
        if mark.startswith(codecs.BOM_UTF8):
            raw.seek(3)
        yield raw
