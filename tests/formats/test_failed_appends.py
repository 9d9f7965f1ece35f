"""Appends to a session's file that fail, one after another: the journal must still be replayed."""

from __future__ import annotations

import pytest

from sessiond.formats import registry
from sessiond.formats.base import TAIL_BYTES, Tail
from sessiond.model.changes import Appended, Created
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.merge import replay

AT = "2026-01-11T14:30:22.000Z"


def appended(seq: int) -> Appended:
    message = Message(id=f"m{seq}", seq=seq, role="user", content=f"word {seq}", timestamp=AT)
    return Appended(seq=seq, at=AT, messages=[message.wire()])


def saved(fmt, session, files, changes):
    """The writes of a save, as the store asks for them."""
    main = files.get(fmt.main_path(session.local_id))
    tail = Tail(exists=False) if main is None else Tail(exists=True, size=len(main), end=main[-TAIL_BYTES:])
    side = {path: files[path] for path in fmt.side_files(session.local_id) if path in files}
    writes = fmt.update(session, tail, side, changes)
    return fmt.encode(session, files) if writes is None else writes


def perform(files, write):
    files[write.path] = files.get(write.path, b"") + write.data if write.how == "append" else write.data


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("name", ["jsonl", "cortex"])
def test_no_failed_append_counts_as_done(name, failures):
    """However often the disk was too full for the main file, what it lacks is known to be lacking, and is replayed from the journal."""
    fmt = registry.get(name)
    session = Session("a", AT)
    first = [Created(seq=0, at=AT, info={"createdAt": AT}), appended(1)]
    for change in first:
        session.apply(change)
    files: dict[str, bytes] = {}
    for write in saved(fmt, session, files, first):
        perform(files, write)
    pending = [appended(2)]
    session.apply(pending[0])
    for number in range(failures):
        writes = saved(fmt, session, files, pending)
        steps = [(write.path, write.how) for write in writes]
        for write in writes[: steps.index((fmt.main_path("a"), "append"))]:  # that step fails, and is taken back
            perform(files, write)
        pending.append(appended(3 + number))
        session.apply(pending[-1])
    decoded = fmt.decode("a", files)
    assert replay(decoded, pending) == pending
    assert [one.content for one in decoded.session.messages()] == [f"word {n}" for n in range(1, failures + 3)]
