"""Pages of what may be shown, cut out of the daemon's pages of everything. No I/O of its own.

A page never has more than was asked for, is only shorter if there is nothing left, and says that there is more only if there is: the
number of results, too, must not tell about what is hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")
S = TypeVar("S")
SCANNED = 500
"""Results asked for at once where most are hidden."""


class ToolPage(Struct, Generic[T], frozen=True):
    """`place`: the daemon's cursor for what follows."""

    items: list[T]
    place: str | None
    incomplete: bool = False


Fetch = Callable[[str | None, int], Awaitable[ToolPage[T]]]
"""(place, limit) -> the daemon's page."""
Show = Callable[[Sequence[T]], Awaitable[list[S | None]]]
"""Each item as it is shown, or None if it must not be."""


async def visible_page(fetch: Fetch[T], show: Show[T, S], place: str | None, limit: int) -> ToolPage[S]:
    """At most `limit` items that may be shown."""
    found: list[S] = []
    incomplete = False
    size = limit
    while True:
        page = await fetch(place, size)
        shown = await show(page.items)
        room = limit - len(found)
        end = _end_of(shown, room)
        if end is not None:  # it fills up in the middle of this page, and a cursor is only valid at the end of one
            page = await fetch(place, end)
            shown = await show(page.items)
        found += [one for one in shown if one is not None][:room]
        incomplete = incomplete or page.incomplete
        place = page.place
        if place is None or len(found) >= limit:
            break
        size = SCANNED
    if place is not None and not await _any(fetch, show, place):
        place = None
    return ToolPage(found, place, incomplete)


def _end_of(shown: Sequence[object], room: int) -> int | None:
    """After how many items the room is full, if that is before the last one."""
    for number, one in enumerate(shown, 1):
        room -= one is not None
        if room == 0:
            return number if number < len(shown) else None
    return None


async def _any(fetch: Fetch[T], show: Show[T, S], place: str | None) -> bool:
    """Return whether anything from here on may be shown."""
    size = 1
    while place is not None:
        page = await fetch(place, size)
        if any(one is not None for one in await show(page.items)):
            return True
        place = page.place
        size = SCANNED
    return False
