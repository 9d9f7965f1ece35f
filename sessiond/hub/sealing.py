"""A hub that cannot read what it keeps: bodies and listings are sealed before they go there and opened when they come back.

A sealed body is SEALED, the key's id (4 bytes), a nonce (12 bytes), then AES-256-GCM of `digest || body`. `digest` is the session's before
this operation. What the seal is bound to besides: session, kind, message id, replica and index. So a reader notices

- a body that was changed, or swapped with another one, of this session or another;
- an operation that was left out, repeated or moved, since the next one says which digest it came after;
- a body that is not sealed at all.

A cut at the end is noticed by whoever knows a later head. A new machine knows none: it can only compare with others.

The nonce is a keyed sum of everything that is sealed (as SIV does it), not random: an operation that is sealed again, after the hub lost it,
gives the same bytes and so the same digest, and no nonce is used for two texts. A digest is over the sealed body, so the hub can sum it up.

The hub sees ids, kinds, numbers, authors, sizes and times.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterable, Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sessiond.errors import BadFile, ConfigError
from sessiond.hub.keys import Key
from sessiond.hub.port import (
    NOTHING,
    HeadPage,
    Hint,
    Hub,
    HubCursor,
    HubHead,
    HubWelcome,
    Operation,
    OperationPage,
    OperationPlace,
    Ordered,
    Push,
    Pushed,
    Return,
    chain,
)

SEALED = b"\x02"
_DIGEST_BYTES = 32
_NONCE_BYTES = 12
_LENGTH = struct.Struct(">I")


class Sealer:
    """Seals with the last of its keys and opens with all of them."""

    def __init__(self, read: Callable[[], Sequence[Key]], where: str) -> None:
        """`read` gives the keys, or raises ConfigError; it is asked again for a key that is not known. `where`: the key file, for
        messages.
        """
        self._read = read
        self._where = where
        self._ciphers: dict[bytes, _Cipher] = {}
        self._now = b""

    def need_keys(self) -> None:
        """ConfigError: there are none."""
        if not self._ciphers:
            self._read_keys()

    def _read_keys(self) -> None:
        keys = self._read()
        self._ciphers = {bytes.fromhex(key.id): _Cipher(key) for key in keys}
        self._now = bytes.fromhex(keys[-1].id)

    def seal(self, text: bytes, bound: bytes) -> bytes:
        self.need_keys()
        cipher = self._ciphers[self._now]
        nonce = hmac.digest(cipher.nonces, _LENGTH.pack(len(bound)) + bound + text, hashlib.sha256)[:_NONCE_BYTES]
        return b"".join((SEALED, self._now, nonce, cipher.aes.encrypt(nonce, text, bound)))

    def open(self, sealed: bytes, bound: bytes, what: str) -> bytes:
        """BadFile: it is not what was sealed under `bound`. ConfigError: the key is not here."""
        if sealed[:1] != SEALED:
            raise BadFile(f"{what} is not sealed, in a store that is")
        if sealed[1:5] not in self._ciphers:  # a rotation has added it since
            self._read_keys()
        cipher = self._ciphers.get(sealed[1:5])
        if cipher is None:
            raise ConfigError(
                f"{what} is sealed with the key {sealed[1:5].hex()}, which is not in {self._where}",
                hint="run `sessiond store key show` where it is, and add its line to the file",
            )
        try:
            return cipher.aes.decrypt(sealed[5 : 5 + _NONCE_BYTES], sealed[5 + _NONCE_BYTES :], bound)
        except (InvalidTag, ValueError):
            raise BadFile(f"{what} was tampered with, or is not in its place") from None


class _Cipher:
    def __init__(self, key: Key) -> None:
        self.aes = AESGCM(hmac.digest(key.secret, b"sessiond store seal", hashlib.sha256))
        self.nonces = hmac.digest(key.secret, b"sessiond store nonce", hashlib.sha256)


def _bound(*parts: bytes | str | int | None) -> bytes:
    """Parts as bytes from which each part can be told."""
    encoded = [
        b"-" if part is None else b"+" + (part if isinstance(part, bytes) else str(part).encode()) for part in parts
    ]
    return b"".join(_LENGTH.pack(len(part)) + part for part in encoded)


def _of_operation(session: str, replica: str, one: Operation | Ordered) -> bytes:
    return _bound("operation", session, one.kind, one.id, replica, one.index)


class SealedHub:
    """A `Hub` in front of another one, which gets only sealed bodies and listings. `replica` is that of the other one."""

    def __init__(self, hub: Hub, sealer: Sealer, replica: str) -> None:
        self._hub = hub
        self._sealer = sealer
        self._replica = replica

    async def welcome(self) -> HubWelcome:
        """ConfigError: the key is not here; it may be later."""
        self._sealer.need_keys()
        return await self._hub.welcome()

    def subscribe(self, listener: Callable[[Hint], None]) -> None:
        self._hub.subscribe(listener)

    async def push(self, push: Push) -> Pushed:
        return await self._hub.push(await self._sealed(push))

    async def erase(self, push: Push) -> Pushed:
        return await self._hub.erase(await self._sealed(push))

    async def give_back(self, lost: Return) -> Pushed:
        sealed = self._seal_all(lost.session, lost.base, lost.digest, lost.operations)
        return await self._hub.give_back(
            msgspec.structs.replace(lost, operations=sealed, listing=self._seal_listing(lost.session, lost.listing))
        )

    async def places(self, indices: Sequence[int]) -> dict[int, OperationPlace]:
        return await self._hub.places(indices)

    async def heads(self, cursor: HubCursor | None, limit: int) -> HeadPage:
        page = await self._hub.heads(cursor, limit)
        return msgspec.structs.replace(page, heads=[self._open_head(head) for head in page.heads])

    async def head(self, session: str) -> HubHead | None:
        head = await self._hub.head(session)
        return None if head is None else self._open_head(head)

    async def operations(self, session: str, after: int, max_bytes: int) -> OperationPage:
        page = await self._hub.operations(session, after, max_bytes)
        opened = self._open_all(page.head, page.operations, last=not page.more)
        return OperationPage(opened, self._open_head(page.head), page.more)

    async def close(self) -> None:
        await self._hub.close()

    async def _sealed(self, push: Push) -> Push:
        author = (await self._hub.welcome()).member
        ordered = [
            Ordered(NOTHING, self._replica, one.index, one.kind, one.id, author, None, 0, one.body)
            for one in push.operations
        ]
        sealed = self._seal_all(push.session, push.base, push.digest, ordered)
        return msgspec.structs.replace(
            push,
            operations=[one.operation for one in sealed],
            listing=self._seal_listing(push.session, push.listing),
        )

    def _seal_all(self, session: str, base: int, digest: bytes, operations: Iterable[Ordered]) -> list[Ordered]:
        sealed = []
        for number, one in enumerate(operations, base + 1):
            body = self._sealer.seal(digest + one.body, _of_operation(session, one.replica, one))
            sealed.append(msgspec.structs.replace(one, number=number, body=body, sealed=None))
            digest = chain(digest, sealed[-1])
        return sealed

    def _open_all(self, head: HubHead, operations: Sequence[Ordered], *, last: bool) -> list[Ordered]:
        opened = []
        digest: bytes | None = None
        for one in operations:
            what = f"operation {one.number} of {head.session}"
            text = self._sealer.open(one.body, _of_operation(head.session, one.replica, one), what)
            before, body = text[:_DIGEST_BYTES], text[_DIGEST_BYTES:]
            if digest is None and one.number == head.floor:
                digest = head.before
            if digest is not None and digest != before:
                raise BadFile(f"{what} does not follow the one before it: the hub's log was changed")
            digest = chain(before, one)
            opened.append(msgspec.structs.replace(one, body=body, sealed=one.body))
        if last and digest is not None and digest != head.digest:
            raise BadFile(f"the end of {head.session} on the hub is not where its head says")
        return opened

    def _seal_listing(self, session: str, listing: bytes | None) -> bytes | None:
        return None if listing is None else self._sealer.seal(listing, _bound("listing", session))

    def _open_head(self, head: HubHead) -> HubHead:
        """Return the head with what lists show; if that cannot be opened, it says so: the others on the page can be."""
        if head.listing is None:
            return head
        what = f"what lists show of {head.session}"
        try:
            listing = self._sealer.open(head.listing, _bound("listing", head.session), what)
        except (BadFile, ConfigError) as error:
            return msgspec.structs.replace(head, listing=None, problem=error.message)
        return msgspec.structs.replace(head, listing=listing)
