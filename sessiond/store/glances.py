"""Sessions that were only glanced at: the rest of them comes by itself, and their files can be looked through for ids.

docs/decisions/0017-a-large-session-is-glanced-at-first.md
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sessiond.errors import SessiondError
from sessiond.formats.base import Decoded
from sessiond.formats.sidecar import sidecar_path
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.store.decay import apart
from sessiond.store.files import Snapshot, StoreFiles
from sessiond.store.port import Loaded
from sessiond.store.tracked import Tracked

log = logging.getLogger(__name__)
_SOON_S = 0.1
"""Whoever opened the session has the first answer by then, and perhaps the second."""
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


class Glances:
    """Of one store. `load(local_id)` has the whole of a session read; it may raise SessiondError."""

    def __init__(
        self,
        files: StoreFiles,
        run: Callable[..., Awaitable[Any]],
        tracked: Mapping[str, Tracked],
        load: Callable[[str], Awaitable[Loaded]],
    ) -> None:
        self._files = files
        self._run = run
        self._tracked = tracked
        self._load = load
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def complete_soon(self, session: Session) -> None:
        """Have the absent messages of a session read, if there are any."""
        local_id = session.local_id
        if session.absent and local_id not in self._timers and local_id not in self._tasks:
            self._timers[local_id] = asyncio.get_running_loop().call_later(_SOON_S, self._begin, local_id)

    def _begin(self, local_id: str) -> None:
        del self._timers[local_id]
        task = self._tasks[local_id] = asyncio.create_task(self._complete(local_id), name=f"complete {local_id}")
        task.add_done_callback(lambda _: self._tasks.pop(local_id))

    async def _complete(self, local_id: str) -> None:
        tracked = self._tracked.get(local_id)
        if tracked is None or tracked.session is None or not tracked.session.absent:
            return  # it was let go of, or somebody needed all of it before
        try:
            await self._load(local_id)
        except SessiondError as error:  # whoever needs the whole is told so too
            log.warning("%s cannot be read whole: %s", local_id, error.message)
        except Exception:
            log.exception("%s is not read whole", local_id)

    async def close(self) -> None:
        """Nothing more is begun, and what was begun is over."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        """Look through the file for messages of these ids; that none is there is noted in `session`."""
        tracked = self._tracked.get(session.local_id)
        if not session.absent:
            return True
        if tracked is None or tracked.session is not session or not self._worthwhile(message_ids):
            return False
        main = self._files.format.main_path(session.local_id)
        needles = [f'"{one}"'.encode() for one in message_ids]
        lacking: bool = await self._run(self._files.lacks, main, tracked.prints.get(main), needles)
        if lacking:
            session.note_new(message_ids)
        return lacking

    @staticmethod
    def _worthwhile(message_ids: Sequence[str]) -> bool:
        return len(message_ids) <= _MOST_IDS and all(map(_PLAIN.fullmatch, message_ids))
