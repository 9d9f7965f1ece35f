"""A hub as a daemon sees it: it takes operations of sessions, gives them their order, and hands them out.

The order of one session:

- An operation is one change that takes one seq: a message, an extend, a note. The hub gives it a *number*. The first operation
  of a session (`created`) gets 0, each later one the next number, without gaps. So the number is the seq.
- The *head* of a session is its last number, and the *digest* sums up everything up to there: `seed(session)`, then for each
  operation `chain(digest, operation)`. A session that the hub does not have has head -1 and the digest `seed(session)`.
- A daemon may push only on top of the head: it names the head and the digest that it knows. If the hub has another head, it
  stores nothing and says which head it has (`behind`, `ahead`, `diverged`). The daemon fetches, plans again, and pushes again. So
  a number is final once the hub has given it.
- An operation has a name: `(replica, index)`. It is stored at most once. A push that was stored already is answered `known`,
  with the numbers that it got. A replica is one life of a daemon's ledger: a restored backup of a laptop gets a new name.

When an answer is lost, the push raises Indeterminate: ask `places` after the link is back.

A hub may be restored from an older backup. A push then gets `ahead` or `diverged`, and `heads` begins again at its first page (`reset`). The daemon
gives back what the hub lacks (`give_back`), under the names that the operations had.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

NOTHING = -1
"""The head of a session that the hub does not have."""

KINDS = (
    "created",
    "appended",
    "extended",
    "finished",
    "updated",
    "note",
    "state",
    "cleared",
    "truncated",
    "trashed",
    "restored",
    "erased",
)
"""A kind's place is its code on the hub, so new ones come at the end. The hub itself looks only for `erased`."""
_CODES = {kind: code for code, kind in enumerate(KINDS)}

Outcome: TypeAlias = Literal["stored", "known", "behind", "ahead", "diverged"]
"""`stored`: durable on the hub now. `known`: it was stored earlier. `behind`: the hub has more than the base. `ahead`: the base
is beyond the hub's head. `diverged`: the hub's session has another past.
"""
OUTCOMES: tuple[Outcome, ...] = ("stored", "known", "behind", "ahead", "diverged")


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One change before it has a number. `index` counts all operations of the replica, in every session, from 1.

    `id` is the message's or note's id, unique among the session's operations, or None. `body` is opaque to the hub.
    """

    index: int
    kind: str
    id: str | None
    body: bytes


class Ordered(msgspec.Struct, frozen=True, gc=False):
    """One operation as the hub has it. `author` is the name of the member who pushed it, as the hub saw it.

    `replica` is 32 hexadecimal digits.

    `voucher`: another member gave it back after the hub had lost it, and says that `author` wrote it; None otherwise.
    `received` is when the hub stored it, in microseconds since 1970 by the hub's clock. `sealed` is the body as the hub has it, if
    that is encrypted.
    """

    number: int
    replica: str
    index: int
    kind: str
    id: str | None
    author: str
    voucher: str | None
    received: int
    body: bytes
    sealed: bytes | None = None

    @property
    def operation(self) -> Operation:
        return Operation(self.index, self.kind, self.id, self.body)


class Push(msgspec.Struct, frozen=True):
    """Operations of one session on top of `base` (number and digest). At least one; their indices rise.

    `listing` is what lists show of the session after them, opaque to the hub; None leaves it as it is.
    """

    session: str
    base: int
    digest: bytes
    operations: Sequence[Operation]
    listing: bytes | None = None


class Pushed(msgspec.Struct, frozen=True):
    """`head` and `digest` are the hub's now. `numbers`: one for each operation if `stored` or `known`, else empty."""

    session: str
    outcome: Outcome
    head: int
    digest: bytes
    numbers: Sequence[int] = ()


class Return(msgspec.Struct, frozen=True):
    """Operations that the hub has lost, on top of `base`. Their `number` is not used; everything else stays, `author` too."""

    session: str
    base: int
    digest: bytes
    operations: Sequence[Ordered]
    listing: bytes | None = None


class HubHead(msgspec.Struct, frozen=True, gc=False):
    """`floor` is the lowest number that is still there: what came before it was erased. `before` is the digest before the floor.

    `problem`: why its listing, which is None then, cannot be opened.
    """

    session: str
    head: int
    digest: bytes
    floor: int
    before: bytes
    listing: bytes | None
    problem: str | None = None


class HubCursor(msgspec.Struct, frozen=True):
    """The point up to which a replica has read the hub's list of changed sessions. Keep it whole; only the hub looks into it.

    The pass is at `change` and `session`, and the next one begins at `horizon`. `whole`: this pass began with the first session.
    `life`: of the hub, see `HeadPage.reset`.
    """

    life: str
    change: int
    session: str
    horizon: int
    whole: bool


class HeadPage(msgspec.Struct, frozen=True):
    """Sessions that changed since the cursor; some of them may have been told already.

    `reset`: this page belongs to a pass of all sessions, because the cursor was None, or the hub was started again since, and so may
    have been restored. `more` False ends the pass. What the replica has and no page of the pass shows, the hub has lost.
    """

    heads: list[HubHead]
    cursor: HubCursor
    more: bool
    reset: bool


class OperationPage(msgspec.Struct, frozen=True):
    """Consecutive operations of a session, from one moment: `head` is of the same. `more`: there are later ones.

    If `head.floor` is above the first number that was asked for, the page begins with the floor: the replica forgets what it has.
    """

    operations: list[Ordered]
    head: HubHead
    more: bool


class OperationPlace(msgspec.Struct, frozen=True):
    """The place of an operation."""

    session: str
    number: int


class HubWelcome(msgspec.Struct, frozen=True):
    """The facts that a hub tells a daemon. `member`: the author of what it pushes. `sealed`: the store's contents are encrypted.

    `hints`: `listening` (the hub tells of changes at once) or `polling` (a pooler is in between). `problem`: why an answer of
    this hub means less than it should, for people; None if all is well. `identity`: tells the store from every other one, also
    from one of the same name on another hub, and is the same after a backup was restored.
    """

    store: str
    member: str
    sealed: bool
    hints: Literal["listening", "polling"]
    server: str
    problem: str | None
    identity: str = ""


class HeadHint(msgspec.Struct, frozen=True):
    """A hint that a session has this head. It may come late, twice or not at all."""

    session: str
    head: int


class Lost(msgspec.Struct, frozen=True):
    """The hub cannot be reached any more. `reason` is for people and holds no password."""

    reason: str


class Back(msgspec.Struct, frozen=True):
    """The hub can be reached, for the first time or again. Hints may have been lost: read on from the cursor."""


Hint: TypeAlias = HeadHint | Lost | Back


class Hub(Protocol):
    """One shared store on its hub, as one member sees it.

    Every method may raise Unavailable (cannot be reached; nothing was stored) and Unauthorized (not a member, or no longer). Calls may
    overlap. Only one push of a session may be under way at a time.
    """

    async def welcome(self) -> HubWelcome: ...

    def subscribe(self, listener: Callable[[Hint], None]) -> None:
        """`listener` is called on the loop, in order, from the next round of the loop on. It must not raise."""

    async def push(self, push: Push) -> Pushed:
        """Durable on the hub when the outcome is `stored` or `known`. Calls that overlap share a transaction.

        Indeterminate (the answer was lost: ask `places`), Conflict (the session has another operation with one of the ids; or, with
        `data["replica"]`, another daemon opened the hub under this replica's name), InvalidParams (this replica has used an
        index already in another session), TooLarge.
        """

    async def give_back(self, lost: Return) -> Pushed:
        """Push operations of any replica. The hub notes who vouches for them."""

    async def places(self, indices: Sequence[int]) -> dict[int, OperationPlace]:
        """Return the places of those of this replica's operations that are on the hub. Those that are left out are not, and no
        earlier push of them can still succeed: the hub refuses what arrives late. But if the hub was restored, another replica
        may have seen them, and give them back.
        """

    async def heads(self, cursor: HubCursor | None, limit: int) -> HeadPage:
        """At most `limit` sessions that changed since `cursor`; None: all, from the beginning."""

    async def head(self, session: str) -> HubHead | None: ...

    async def operations(self, session: str, after: int, max_bytes: int) -> OperationPage:
        """The operations after number `after`: at least one if there is one, about `max_bytes` at most. SessionNotFound."""

    async def erase(self, push: Push) -> Pushed:
        """Push one `erased` operation and remove all earlier ones of the session from the hub, for ever.

        Unauthorized: this member may not erase.
        """

    async def close(self) -> None: ...


def seed(session: str) -> bytes:
    """The digest of a session that has no operation."""
    return hashlib.sha256(session.encode()).digest()


_FIXED = struct.Struct(">qhq")
_LENGTH = struct.Struct(">i")


def chain(digest: bytes, operation: Ordered) -> bytes:
    """The digest after `operation`, whose predecessor's digest is `digest`. schema.sql has the same sum."""
    message_id = (operation.id or "").encode()
    author = operation.author.encode()
    return hashlib.sha256(
        b"".join(
            (
                digest,
                _FIXED.pack(operation.number, _CODES[operation.kind], operation.index),
                bytes.fromhex(operation.replica),
                _LENGTH.pack(len(message_id)),
                message_id,
                _LENGTH.pack(len(author)),
                author,
                operation.body if operation.sealed is None else operation.sealed,
            )
        )
    ).digest()


def chain_all(digest: bytes, operations: Iterable[Ordered]) -> bytes:
    for operation in operations:
        digest = chain(digest, operation)
    return digest


def code_of(kind: str) -> int:
    """Raises KeyError for a kind that does not exist."""
    return _CODES[kind]
