"""Append, pop and clear as the SDKs mean them: a session is made by its first message, and a lost answer changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sessiond.client import (
    AlreadyExists,
    AnswerLost,
    AsyncSessiond,
    Conflict,
    Message,
    NewMessage,
    Sessiond,
    SessionNotFound,
    requests,
)

APPEND_MESSAGES = 1000
"""In one request. More are sent in several, in order."""
POP_TRIES = 100
"""How often other writers may come between before a pop raises Conflict."""
FIELDS = ("name", "cwd", "model", "tags", "metadata")


def prepared(messages: Iterable[NewMessage]) -> Iterator[list[NewMessage]]:
    """Requests' worth of messages, each with its id: it stays the same however often they are sent."""
    ready = [requests.with_id(one) for one in messages]
    for begin in range(0, len(ready), APPEND_MESSAGES):
        yield ready[begin : begin + APPEND_MESSAGES]


def append(client: Sessiond, session_id: str, messages: Iterable[NewMessage], **fields: Any) -> None:
    """Append; the session is made with `fields` (as for `Sessiond.new`) if it is not there. Errors as of `Session.append_all`."""
    session = client.session(session_id)
    for part in prepared(messages):
        try:
            session.append_all(part)
        except SessionNotFound:
            store, _, own_id = session_id.rpartition("/")
            try:
                made = client.new(id=own_id, store=store or None, messages=part, **fields)
            except AlreadyExists:
                session.append_all(part)
            else:
                made.close()


async def aappend(client: AsyncSessiond, session_id: str, messages: Iterable[NewMessage], **fields: Any) -> None:
    """Append messages as `append` does."""
    session = client.session(session_id)
    for part in prepared(messages):
        try:
            await session.append_all(part)
        except SessionNotFound:
            store, _, own_id = session_id.rpartition("/")
            try:
                made = await client.new(id=own_id, store=store or None, messages=part, **fields)
            except AlreadyExists:
                await session.append_all(part)
            else:
                await made.close()


async def apop(client: AsyncSessiond, session_id: str) -> Message | None:
    """Remove the newest message and return it; None if there is none. Nothing that another writer appends meanwhile is removed.

    If the daemon ends before it responds, the message counts as popped here if it is gone. Conflict if others write too fast.
    """
    session = client.session(session_id)
    for _ in range(POP_TRIES):
        try:
            page = await client.answer(requests.read(session_id, last=1))
            if not page.value.messages:
                return None
            newest = page.value.messages[-1]
            await session.truncate(newest.seq - 1, expected_seq=page.value.seq)
        except SessionNotFound:
            return None
        except Conflict:
            continue
        except AnswerLost:
            left = await session.messages(since=newest.seq - 1)
            if any(one.id == newest.id for one in left):
                continue
        return newest
    raise Conflict(
        f"other writers changed {session_id} {POP_TRIES} times while its last item was to be removed", hint="try again"
    )


def clear(client: Sessiond, session_id: str) -> None:
    """Remove all messages that are there now. A session that is not there has none."""
    session = client.session(session_id)
    try:
        seq = session.info().seq
        while True:
            try:
                session.clear()
                return
            except AnswerLost:
                oldest = client.answer(requests.read(session_id, since=0, limit=1)).value.messages
                if not oldest or oldest[0].seq > seq:
                    return
    except SessionNotFound:
        return


async def aclear(client: AsyncSessiond, session_id: str) -> None:
    """Remove all messages as `clear` does."""
    session = client.session(session_id)
    try:
        seq = (await session.info()).seq
        while True:
            try:
                await session.clear()
                return
            except AnswerLost:
                oldest = (await client.answer(requests.read(session_id, since=0, limit=1))).value.messages
                if not oldest or oldest[0].seq > seq:
                    return
    except SessionNotFound:
        return
