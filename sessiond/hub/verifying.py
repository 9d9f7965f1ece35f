"""Compares a hub with itself and with what a replica knows: `sessiond store verify`.

Every session's operations are read again and summed up; the sum must be the head's digest, the numbers without a gap, and every body readable.
What a replica knows of a session is a number and a digest. If the hub's session has passed it with the same digest, all is well. Else the
hub was restored from an older backup, or was tampered with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from sessiond.errors import BadFile, ConfigError, SessionNotFound
from sessiond.hub.bodies import unpack_json
from sessiond.hub.port import NOTHING, Hub, HubHead, Ordered, chain, seed

_PAGE = 1000
_PAGE_BYTES = 4 * 1024 * 1024

Kind = Literal["gap", "digest", "body", "listing", "lost", "behind", "diverged"]


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """`gap`: a number is missing. `digest`: the operations do not sum up to the head. `body`: one cannot be read. `listing`:
    what lists show of it cannot be read. `lost`: the
    replica has the session, the hub does not. `behind`: the replica has seen a later head. `diverged`: they differ at that number.
    """

    session: str
    kind: Kind
    number: int
    message: str


class Verified(msgspec.Struct, frozen=True, rename="camel"):
    """The amount that was read, and what is wrong with it."""

    sessions: int
    operations: int
    bytes: int
    differences: list[Difference]


async def verify(
    hub: Hub, known: Mapping[str, tuple[int, bytes]] | None = None, progress: Callable[[int], None] | None = None
) -> Verified:
    """`known`: session -> number and digest that a replica has. `progress` is called with how many sessions were read."""
    left = dict(known or {})
    differences: list[Difference] = []
    sessions = operations = size = 0
    cursor = None
    seen: set[str] = set()
    while True:
        page = await hub.heads(cursor, _PAGE)
        for head in page.heads:
            if head.session in seen:
                continue
            seen.add(head.session)
            count, length, found = await _session(hub, head, left.pop(head.session, None))
            sessions, operations, size = sessions + 1, operations + count, size + length
            differences += found
            if head.problem is not None:
                differences.append(Difference(head.session, "listing", head.head, head.problem))
            if progress is not None:
                progress(sessions)
        cursor = page.cursor
        if not page.more:
            break
    differences += [
        Difference(session, "lost", number, f"the hub does not have it; here it has {number + 1} operations")
        for session, (number, _) in left.items()
    ]
    return Verified(sessions, operations, size, differences)


async def _session(hub: Hub, head: HubHead, known: tuple[int, bytes] | None) -> tuple[int, int, list[Difference]]:
    """Return how many operations and bytes a session has, and what is wrong with it. It may grow meanwhile."""
    found: list[Difference] = []
    digest, number, size, first = seed(head.session), NOTHING, 0, True
    while True:
        try:
            page = await hub.operations(head.session, number, _PAGE_BYTES)
        except SessionNotFound:
            return 0, 0, [Difference(head.session, "lost", NOTHING, "the hub has just lost it")]
        except (BadFile, ConfigError) as error:
            return 0, size, [*found, Difference(head.session, "body", number + 1, error.message)]
        head = page.head
        if first and head.floor > 0:
            digest, number = head.before, head.floor - 1
        first = False
        for operation in page.operations:
            if operation.number != number + 1:
                found.append(Difference(head.session, "gap", number + 1, f"{operation.number} follows {number}"))
            found += _readable(head.session, operation)
            digest, number = chain(digest, operation), operation.number
            size += len(operation.body)
            if known is not None and known[0] == number and known[1] != digest:
                found.append(Difference(head.session, "diverged", number, "the hub has another past than this replica"))
        if not page.more:
            break
    if number != head.head or digest != head.digest:
        found.append(Difference(head.session, "digest", head.head, "the operations do not sum up to the head's digest"))
    if known is not None and known[0] > head.head:
        message = f"this replica has seen number {known[0]}, the hub has {head.head}"
        found.append(Difference(head.session, "behind", head.head, message))
    return number + 1 - max(head.floor, 0), size, found


def _readable(session: str, operation: Ordered) -> list[Difference]:
    try:
        unpack_json(operation.body)
    except BadFile as error:
        return [Difference(session, "body", operation.number, error.message)]
    return []
