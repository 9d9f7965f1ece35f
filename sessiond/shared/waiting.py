"""An operation that waits in the ledger of a shared store until its hub has it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sessiond.hub.port import Ordered

Name = tuple[str, int]
"""(replica, index) of an operation."""


class Waiting(msgspec.Struct, frozen=True):
    """An operation that the hub has not acknowledged. `place` 0: it is not in the ledger. The last name is that of this life.

    `author`: the member who wrote it, as far as was known then; empty: the hub had never been reached.
    """

    kind: str
    id: str | None
    body: bytes
    names: list[Name]
    place: int = 0
    author: str = ""

    def ordered(self, number: int, author: str | None = None) -> Ordered:
        """Return the operation as the hub will have it, except for when it came. `author`: if it is known better now."""
        replica, index = self.names[-1]
        by = self.author if author is None else author
        return Ordered(number, replica, index, self.kind, self.id, by, None, 0, self.body)

    def is_signed_as(self, row: Ordered) -> bool:
        """Return whether it was shown under the author that the hub has noted. Only a message shows one."""
        return self.kind != "appended" or self.author == row.author


def begins(waiting: Sequence[Waiting]) -> bool:
    """Return whether these operations make a session."""
    return bool(waiting) and waiting[0].kind == "created"
