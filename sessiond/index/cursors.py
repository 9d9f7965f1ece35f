"""Opaque cursors: where a page ended, for which request, in which index. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from array import array
from collections import OrderedDict
from threading import Lock
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from sessiond.errors import InvalidParams

_T = TypeVar("_T")
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""For positions: integers that SQLite takes, even if the cursor was tampered with."""


def request_digest(*parts: object) -> str:
    """Equal for equal requests: a cursor only continues the request that it came from."""
    raw = msgspec.json.encode([str(part).encode("utf-8", "surrogatepass").hex() for part in parts])
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def encode(instance: str, digest: str, position: msgspec.Struct) -> str:
    raw = msgspec.json.encode([instance, digest, position])
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(cursor: object, instance: str, digest: str, shape: type[_T]) -> _T:
    """The position that `encode` put in. InvalidParams if it is not a cursor, or belongs to another request or an index that
    is gone.
    """
    if not isinstance(cursor, str):
        raise InvalidParams("cursor: expected a string", field="cursor")
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found, made_for, position = msgspec.json.decode(raw, type=tuple[str, str, Any])
    except (UnicodeEncodeError, binascii.Error, msgspec.DecodeError) as error:
        raise InvalidParams("invalid cursor", field="cursor") from error
    if made_for != digest:
        raise InvalidParams("cursor: it belongs to another request", field="cursor")
    if found != instance:
        raise stale()
    try:
        return msgspec.convert(position, shape)
    except msgspec.ValidationError as error:
        raise InvalidParams("invalid cursor", field="cursor") from error


def stale() -> InvalidParams:
    return InvalidParams("cursor: it is no longer valid", field="cursor", hint="Ask for the first page again.")


class HitOrders:
    """Orders of hits in which a cursor continues, kept in memory up to a number of bytes; the longest unused are dropped
    first. Thread-safe.

    Keys begin anywhere, so the cursor of an earlier life of the daemon finds nothing instead of another search's hits.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, array[int]] = OrderedDict()
        self._next = secrets.randbits(62)
        self._lock = Lock()

    def keep(self, ids: array[int]) -> int:
        with self._lock:
            self._next += 1
            self._kept[self._next] = ids
            self._bytes += len(ids) * ids.itemsize
            while self._bytes > self._most and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone) * gone.itemsize
            return self._next

    def get(self, key: int) -> array[int]:
        """InvalidParams if it was dropped."""
        with self._lock:
            if key not in self._kept:
                raise stale()
            self._kept.move_to_end(key)
            return self._kept[key]
