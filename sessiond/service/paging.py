"""Pages of messages, bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sessiond.errors import InvalidParams
from sessiond.limits import Limits
from sessiond.model.changes import Change
from sessiond.model.message import Message, Note
from sessiond.model.session import Session

_encode = msgspec.json.Encoder().encode


def check_number(field: str, value: int | None) -> None:
    """InvalidParams for a number below 0."""
    if value is not None and value < 0:
        raise InvalidParams(f"{field}: expected 0 or more, not {value}", field=field)


def newest_notes(notes: list[Note], count: int | None) -> list[Note]:
    return notes if count is None else notes[len(notes) - min(count, len(notes)) :]


def opening(
    session: Session, *, last: int | None, since: int | None, limits: Limits
) -> tuple[list[Message], bool, list[Change] | None]:
    """Return what a client gets when it opens a session: messages, whether there are more of them, and all changes after `since` if
    they are known. The messages begin earlier if `since` stands for something else now.
    """
    if since is None:
        return *newest(session, limits.default_page_messages if last is None else last, limits), None
    settled = session.settled(since)
    changes = session.changes_since(since) if settled == since else None
    return *following(session, settled, limits.page_messages, limits), changes


def page(
    session: Session, *, since: int | None, before: int | None, count: int, limits: Limits
) -> tuple[list[Message], bool]:
    """At most `count` messages with seqs between the two, starting after `since` if given, otherwise the newest."""
    if since is None:
        return newest(session, count, limits, before)
    return following(session, since, count, limits, before)


def newest(session: Session, count: int, limits: Limits, before: int | None = None) -> tuple[list[Message], bool]:
    """The newest `count` messages (with a seq below `before`), oldest first, and whether there are older ones."""
    stop = len(session) if before is None else session.position_after(before - 1)
    start = max(0, stop - min(count, limits.page_messages))
    page = session.messages(start, stop)
    kept = _within(reversed(page), limits.page_most)
    page = page[len(page) - kept :]
    return page, stop - len(page) > 0


def following(
    session: Session, since: int, count: int, limits: Limits, before: int | None = None
) -> tuple[list[Message], bool]:
    """The oldest `count` messages with a seq above `since` (and below `before`), and whether more of these follow."""
    start = session.position_after(since)
    stop = len(session) if before is None else max(start, session.position_after(before - 1))
    page = session.messages(start, min(stop, start + min(count, limits.page_messages)))
    page = page[: _within(page, limits.page_most)]
    return page, start + len(page) < stop


def _within(messages: Iterable[Message], limit: int) -> int:
    """Return how many messages fit; at least one, so that paging always advances."""
    used = kept = 0
    for message in messages:
        used += _size(message)
        if used > limit and kept:
            break
        kept += 1
    return kept


def _size(message: Message) -> int:
    if isinstance(message.content, str) and not message.rest:
        return 4 * len(message.content) + 200
    return len(_encode(message.wire()))
