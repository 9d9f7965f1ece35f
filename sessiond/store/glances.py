"""Glances at the files of large sessions: their end before the whole was read, and whether an id is anywhere in them.

docs/decisions/0017-a-large-session-is-glanced-at-first.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sessiond.formats.base import Decoded
from sessiond.formats.sidecar import sidecar_path
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.store.around import Run
from sessiond.store.decay import apart
from sessiond.store.files import Snapshot, StoreFiles
from sessiond.store.tracked import Tracked

_MOST_IDS = 4
"""To look through the file for more of them takes as long as to read it whole."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:+@=~-]+")
"""Ids that stand in a file as they are, whoever wrote it."""


def glance_at(
    files: StoreFiles, limits: Limits, local_id: str, pending_from: int | None
) -> tuple[Snapshot, Decoded] | None:
    """The session as its sidecar and the end of its file tell it, with messages absent; None where it must be read whole.

    `pending_from`: seq of the first change that the journal still has. Blocks.
    """
    look: Callable[..., Decoded | None] | None = getattr(files.format, "glance", None)
    read = files.read_end(local_id, limits.glanced_file_bytes, limits.glanced_end_bytes) if look is not None else None
    if look is None or read is None:
        return None
    snapshot, end = read
    main, side = files.format.main_path(local_id), sidecar_path(local_id)
    if apart(snapshot.prints[main], snapshot.prints.get(side)):
        return None
    decoded = look(local_id, snapshot.files.get(side), snapshot.prints[main][1], end, pending_from)
    return None if decoded is None else (snapshot, decoded)


async def lacks(
    files: StoreFiles, run: Run, tracked: Tracked | None, session: Session, message_ids: Sequence[str]
) -> bool:
    """Whether none of the absent messages has one of these ids, as far as a look through the file tells; noted in `session`."""
    if not session.absent:
        return True
    if tracked is None or tracked.session is not session or not _worthwhile(message_ids):
        return False
    main = files.format.main_path(session.local_id)
    needles = [f'"{one}"'.encode() for one in message_ids]
    lacking: bool = await run(files.lacks, main, tracked.prints.get(main), needles)
    if lacking:
        session.note_new(message_ids)
    return lacking


def _worthwhile(message_ids: Sequence[str]) -> bool:
    return len(message_ids) <= _MOST_IDS and all(map(_PLAIN.fullmatch, message_ids))
