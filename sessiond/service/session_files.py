"""The files of one open session: how its owner saves them, notices what others wrote there, and reads what is still absent.

A save is a job in the session's queue. It takes its place in the lane in its turn, then writes a snapshot while the queue goes
on. A look for outside edits, and reading the rest of a large session, have no place in the queue: they take the lane when it
is free. Nothing that holds the lane waits for the queue: a save that meets an outside edit (`OutsideChange`) lets go of it,
queues the merge, and begins again.

What "saved" and "changed outside" mean is up to the store: `Stored` may keep the session in a folder, or elsewhere as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import cast

from sessiond.errors import SessionNotFound, Unavailable
from sessiond.model.session import Absent, Session
from sessiond.service.actor import Actor
from sessiond.service.jobs import Job
from sessiond.shield import shielded
from sessiond.store.port import OutsideChange, SavedSession, Store, Stored

_ATTEMPTS = 16
"""How often a save gives way to a program that writes the same file in a tight loop."""


class SessionFiles(Actor):
    """`changed_at`, `dirty_since`: by the monotonic clock; `AutoSave` sets them. `dirty_since` None: the file is current."""

    def __init__(self, wire_id: str, store: Store, stored: Stored) -> None:
        super().__init__(wire_id)
        self.store = store
        self.stored = stored
        self.changed_at = 0.0
        self.dirty_since: float | None = None
        self._saving: asyncio.Task[None] | None = None
        self._looking = self._look_again = False

    @property
    def local_id(self) -> str:
        return self.stored.local_id

    @property
    def there(self) -> Session:
        """The session, which must be loaded."""
        if self.session is None:
            raise SessionNotFound(
                f"the session {self.wire_id!r} no longer exists", hint="`sessiond list --deleted` shows the trash"
            )
        return self.session

    @property
    def dirty(self) -> bool:
        """True if the session file is behind."""
        return self.stored.dirty

    @property
    def never_filled(self) -> bool:
        """It is empty and has no file: there is nothing to save."""
        return self.session is not None and self.session.is_blank and not self.stored.size

    # What the owner adds

    @abstractmethod
    async def merge(self) -> None:
        """Take in what another program wrote or removed. Runs alone."""

    @abstractmethod
    def _became(self, old: Session, now: Session | None) -> None:
        """The store has another state of the session than `old`: `now`, or none. The same object: nothing happened."""

    @abstractmethod
    def _was_saved(self, saved: SavedSession) -> None: ...

    @abstractmethod
    def _compared(self) -> None:
        """The files hold nothing that is not known, but something beside them may have to be written."""

    # Saving

    async def save(self) -> SavedSession | None:
        """Bring the file up to date with all earlier changes. None: there was nothing to do. ReadOnly, BadFile, Unavailable;
        everything remains in the journal then.
        """
        with self.in_use():
            for _ in range(_ATTEMPTS):
                try:
                    return cast("SavedSession | None", await self._put(Job(save=True)).outcome())
                except OutsideChange:
                    await self.stored.changed()  # this waits until the file no longer changes
                    await self.alone(self.merge)
                except Absent:  # its file must be written whole
                    await self.look(lambda _: None, whole=True)
        raise self._written_all_the_time()

    async def _begin_save(self, job: Job, session: Session) -> None:
        """Takes the lane in its turn. Meanwhile the queue continues, except for jobs that need the lane too."""
        if self.dirty and not session.is_checked:  # nothing is written before everything there is read
            self._queue.appendleft(job)
            await self._find_for(job, whole=False)
            return
        job.begun = True
        place = self.files.ask()
        self._saving = asyncio.create_task(self._save_beside(job, place), name=f"save {self.wire_id}")

    async def _save_beside(self, job: Job, place: asyncio.Future[None] | None) -> None:
        try:
            await self.files.come(place)
            try:
                saved = await self._save_now()
            finally:
                self.files.release()
            job.done(saved)
        except Exception as error:  # raised for the caller
            job.failed(error)
        except BaseException:
            job.abandoned()
            raise
        if not self.busy:
            self._idle()

    async def _save_now(self) -> SavedSession | None:
        saved = await self.stored.save(self.there)
        if saved is not None:
            self.dirty_since = self.changed_at if self.dirty else None
            self._was_saved(saved)
        return saved

    async def save_alone(self) -> SavedSession | None:
        """Save the session as `save` does, for a job that runs alone."""
        for _ in range(_ATTEMPTS):
            await self.need(whole=True)
            try:
                return await self._save_now()
            except OutsideChange:
                await self.stored.changed()
                await self.merge()
        raise self._written_all_the_time()

    def _written_all_the_time(self) -> Unavailable:
        return Unavailable(
            f"{self.store.file_path(self.local_id)} is constantly being written by another program",
            hint="everything acknowledged is safe in the journal; it is saved as soon as the file stops changing",
        )

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """The daemon does not write its files meanwhile."""
        with self.in_use():
            async with self.files:
                yield

    # Outside the queue, in the lane of the files

    async def look_outside(self) -> None:
        """See whether another program wrote its files. SessiondError."""
        if self.session is None:
            return
        self._look_again = True
        if self._looking:
            return
        self._looking = True
        try:
            with self.in_use():
                while self._look_again:
                    self._look_again = False
                    async with self.files:
                        changed = await shielded(self.stored.changed())
                    if changed:
                        await self.alone(self.merge)
                    else:
                        self._compared()
        finally:
            self._looking = False

    async def read_rest(self) -> None:
        """Have all of a partial load checked, while changes continue, and in memory if it is not too large. SessiondError."""
        session = self.session
        if session is None or not session.absent:
            return
        with self.in_use():
            async with self.files:
                if await shielded(self.stored.check(session)):
                    return
                complete = await shielded(self.stored.read_rest(session))

            async def put() -> None:
                if self.session is session and session.absent:
                    self._became(session, await complete())

            await self.alone(put)
