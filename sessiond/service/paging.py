"""Pages of messages, bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.model.session import Session

_encode = msgspec.json.Encoder().encode


def newest(session: Session, count: int, limits: Limits, before: int | None = None) -> tuple[list[Message], bool]:
    """The newest `count` messages (with a seq below `before`), oldest first, and whether there are older ones."""
    stop = len(session) if before is None else session.position_after(before - 1)
    start = max(0, stop - min(count, limits.page_messages))
    page = session.messages(start, stop)
    kept = _within(reversed(page), limits.page_bytes)
    page = page[len(page) - kept :]
    return page, stop - len(page) > 0


def following(
    session: Session, since: int, count: int, limits: Limits, before: int | None = None
) -> tuple[list[Message], bool]:
    """The oldest `count` messages with a seq above `since` (and below `before`), and whether there are newer ones of these."""
    start = session.position_after(since)
    stop = len(session) if before is None else max(start, session.position_after(before - 1))
    page = session.messages(start, min(stop, start + min(count, limits.page_messages)))
    page = page[: _within(page, limits.page_bytes)]
    return page, start + len(page) < stop


def _within(messages: Iterable[Message], limit: int) -> int:
    """How many fit; at least one, so that paging always goes on."""
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
