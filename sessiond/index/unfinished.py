"""Finds the sessions that the index file does not have completely, for when no daemon has it open. Synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from sessiond.index import chunks, schema
from sessiond.index.index import Index
from sessiond.index.prepared import read
from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.model.session import Session


def unfinished(path: str) -> dict[str, dict[int, int]]:
    """Sessions whose content the index does not vouch for -> seq of each of their messages that it has -> size in bytes of
    what it keeps of it. Empty for a file of another version, which the next daemon replaces. Raises sqlite3.Error.
    """
    db = schema.connect(path, reading=True)
    try:
        if db.execute("PRAGMA user_version").fetchone()[0] != schema.VERSION:
            return {}
        found: dict[str, dict[int, int]] = {}
        rows = db.execute(
            "SELECT session.id, doc.seq, doc.size FROM session LEFT JOIN doc ON doc.session = session.no AND doc.kind = ? "
            "WHERE session.fingerprint IS NULL",
            (schema.MESSAGE,),
        )
        for wire_id, seq, size in rows:
            sizes = found.setdefault(wire_id, {})
            if seq is not None:
                sizes[seq] = size
        return found
    finally:
        db.close()


def lacking(messages: Iterable[Message], sizes: dict[int, int]) -> str | None:
    """Say why something of these messages cannot be found, if that is so. Messages newer than what the index has do not count:
    it was not fed yet.
    """
    for message in messages:
        found = read(message)
        if found.problem is not None:
            return f"message {message.id}: {found.problem}"
        without_words = len(chunks.pack(message.id, []))
        if found.texts and sizes.get(message.seq) == without_words:
            return f"message {message.id} was indexed without its words"
    return None


def put_again(path: str, limits: Limits, wire_id: str, session: Session) -> str | None:
    """Index the session as it is in its files. Returns why something of it still cannot be found."""
    return asyncio.run(_put_again(path, limits, wire_id, session))


async def _put_again(path: str, limits: Limits, wire_id: str, session: Session) -> str | None:
    index = Index(path, limits)
    await index.open()
    try:
        info = await index.info(wire_id)
        if info is None:
            return "the index does not have it"
        # Without a fingerprint: the journal may have more, so that the next daemon reads it as well.
        index.put_session(msgspec.structs.replace(info, fingerprint=None), session.messages(), list(session.notes))
        await index.settled()
        return index.problem or index.why_left_out(wire_id)
    finally:
        await index.close()
