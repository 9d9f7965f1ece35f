"""A change in several smaller ones, for when it cannot be written as one: then only what is bad in it is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sessiond.index.batch import Batch
from sessiond.index.feed_queue import Apply
from sessiond.index.prepared import apart
from sessiond.index.preparer import PreparedBatch
from sessiond.index.values import IndexedInfo
from sessiond.model.message import Message, Note


def each_message(session_id: str, messages: Sequence[Message]) -> Iterator[Apply]:
    for one in messages:
        yield partial(Batch.add_messages, session_id=session_id, messages=(one,))


def each_prepared(session_id: str, job: PreparedBatch) -> Iterator[Apply]:
    """Raises what preparing them raised."""
    for one in apart(job.result()):
        yield partial(Batch.add_part, session_id=session_id, prepared=one)


def each_note(info: IndexedInfo, notes: Sequence[Note], stamp: int) -> Iterator[Apply]:
    """The end of a session."""
    for one in notes:
        yield partial(Batch.add_note, session_id=info.session_id, note=one)
    yield partial(Batch.end_session, info=info, notes=(), stamp=stamp)
