"""A client's view of one session that it follows: which seq it saw last, and what it has to read again. No I/O.

told a change that comes next      it is given on
told one that is known             it is passed over
told one beyond the next           the session is opened again since the last seq that was seen
resync, reloaded, reconnect        the same
opened, and it is another one      it is opened again from its beginning: it was deleted, and its id was used again
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.client.changes import (
    ActivityChanged,
    Asked,
    Change,
    Deleted,
    Interrupted,
    Reread,
    as_they_were,
    first_seq,
    read_change,
    without_known,
)
from sessiond.client.types import Notice, Opened, Page

EARLY_NOTICES = 1000


class SessionFollower:
    """Follows one session from the change after `since`; with None from whatever its seq is when it is first opened."""

    def __init__(
        self, session_id: str, since: int | None, created_at: str | None = None, *, answers: bool = False
    ) -> None:
        """`answers`: whether the daemon may ask for answers here."""
        self.session_id = session_id
        self._answers = answers
        self.created_at = created_at
        """Of the session to which `since` belongs; None until it is known. Another one with the same id has another."""
        self._another = False
        """It has to be told from its beginning, because it is not the session of which changes were given on."""
        self.known = since
        """The last seq that was given on."""
        self.begun = since
        """The seq after which it began; None until it is known."""
        self.stale = True
        """It has to be opened before anything that the daemon says of it is of use."""
        self.gone = False
        self._edited = False
        """Another program changed the file since the last change that was given on."""
        self.more_since: int | None = None
        """Messages with a greater seq have to be read, for the last page left them out."""
        self._reading_to = 0
        self._early: list[tuple[str, Notice]] = []
        self._too_early = False
        """More was told meanwhile than is kept."""

    def opening(self) -> dict[str, Any]:
        """Params of `session/open`."""
        self._early.clear()
        self._too_early = False
        start = {"last": 0} if self.known is None else {"since": self.known}
        return {"sessionId": self.session_id, **start, **({"answers": True} if self._answers else {})}

    def opened(self, result: Opened) -> Iterator[Change]:
        """Yield what happened since the last seq that was seen, from the result of `session/open`."""
        if self.created_at not in (None, result.session.created_at):
            self.created_at, self._another = result.session.created_at, True
            self.known = self.begun = 0
            return  # what was asked for, changes after a seq of the other session, means nothing
        self.stale = False
        self.created_at = result.session.created_at
        edited, self._edited = self._edited, False
        now = result.session.seq
        if self.known is None:
            self.begun = self.known = now
        elif self._another:
            yield from self._reread(result, edited)
        elif result.changes is None:
            if now != self.known or result.messages:
                yield from self._reread(result, edited)
        else:
            for change in as_they_were([read_change(raw, self.session_id) for raw in result.changes]):
                fresh = without_known(change, self.known)
                if fresh is not None:
                    self.known = fresh.seq
                    yield fresh
            self.known = max(self.known, now)
        if self.more_since is None:
            yield from self._after_all()

    def _after_all(self) -> Iterator[Change]:
        """Yield what was told meanwhile."""
        early, self._early = self._early, []
        self.stale = self._too_early
        for method, notice in early:
            yield from self.told(method, notice)

    def _reread(self, result: Opened, edited: bool) -> Iterator[Change]:
        since, self.known = self.known or 0, result.session.seq
        if result.messages:  # they begin earlier if the last seqs that were given on stand for something else now
            since = min(since, result.messages[0].seq - 1)
        if result.has_more and result.messages:
            self.more_since = result.messages[-1].seq
            self._reading_to = result.session.seq
        yield Reread(
            seq=result.session.seq,
            session_id=self.session_id,
            since=since,
            session=result.session,
            messages=result.messages,
            edited=edited,
            another=self._another,
        )
        self._another = False

    def page(self, page: Page) -> Iterator[Change]:
        """The messages after `more_since`, as `session/read` returned them."""
        since, self.more_since = self.more_since or 0, None
        # What is newer than the open is told in its own turn.
        messages = [one for one in page.messages if one.seq <= self._reading_to]
        if page.has_more and messages and len(messages) == len(page.messages):
            self.more_since = messages[-1].seq
        if messages:
            yield Reread(seq=self._reading_to, session_id=self.session_id, since=since, messages=messages)
        if self.more_since is None:
            yield from self._after_all()

    def told(self, method: str, notice: Notice) -> Iterator[Change]:
        """Yield what a notification about this session brings. Afterwards `stale` says whether to open it again."""
        if self.gone:
            return
        if method == "session/deleted":
            yield self.deleted(moved_to=notice.moved_to)
        elif method == "session/asked":
            yield Asked(session_id=self.session_id, seq=self.known or 0, message_id=notice.message_id)
        elif method == "session/interrupted":
            yield Interrupted(session_id=self.session_id, seq=self.known or 0, message_id=notice.message_id or None)
        elif method == "session/activityChanged":
            yield ActivityChanged(session_id=self.session_id, seq=self.known or 0, activity=notice.activity)
        elif self.stale or self.more_since is not None:
            if len(self._early) < EARLY_NOTICES:
                self._early.append((method, notice))
            else:
                self._too_early = True
        elif method == "session/resync":
            self.stale = self.stale or notice.seq != self.known
        elif method == "session/reloaded":
            self.stale = self._edited = True
        elif method == "session/changed" and not notice.replay:
            yield from self._changed(notice)

    def _changed(self, notice: Notice) -> Iterator[Change]:
        for raw in notice.changes:
            known = self.known or 0
            change = without_known(read_change(raw, self.session_id, notice.origin), known)
            if change is None:
                continue
            if first_seq(change) != known + 1:
                self.stale = True
                return
            self.known = change.seq
            yield change

    def deleted(self, *, missed: bool = False, moved_to: str | None = None) -> Change:
        """`missed`: it is not there any more when it is opened again."""
        self.gone, self.stale = True, False
        return Deleted(session_id=self.session_id, seq=self.known or 0, missed=missed, moved_to=moved_to)

    def lost(self) -> None:
        """The connection ended."""
        self.stale = not self.gone
        self._early.clear()
        if self.more_since is not None:
            self.known, self.more_since = self.more_since, None

    def interrupted(self, given_on: int | None) -> None:
        """Do the same as `lost`, where the last change may not have been given on: the last that surely was has the seq `given_on`."""
        self.lost()
        last = self.begun if given_on is None else given_on
        if last is not None and self.known is not None:
            self.known = min(self.known, last)
