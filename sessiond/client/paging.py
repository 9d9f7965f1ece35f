"""The state of an iteration over the pages of a search. No I/O.

A cursor is of one life of the daemon: one that was started again between two pages refuses it. Then the first page is asked for
again, and what was given already is left out.
"""

from __future__ import annotations

from sessiond.client.types import Hit, HitPage
from sessiond.errors import InvalidParams


class SearchPages:
    def __init__(self) -> None:
        self.cursor: str | None = None
        self.ended = False
        self._given: set[tuple[str, str | None, str]] = set()

    def take(self, page: HitPage) -> list[Hit]:
        """Note what the page has, and return what was not given yet."""
        fresh = [hit for hit in page.hits if _key(hit) not in self._given]
        self._given.update(map(_key, fresh))
        self.cursor = page.next_cursor
        self.ended = self.cursor is None
        return fresh

    def begin_again(self, error: InvalidParams) -> None:
        """The daemon does not know the cursor any more. Any other error is raised."""
        if self.cursor is None or error.data.get("field") != "cursor":
            raise error
        self.cursor = None


def _key(hit: Hit) -> tuple[str, str | None, str]:
    return hit.session_id, hit.message_id, hit.snippet
