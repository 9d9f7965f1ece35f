"""Keeps the ledger of a shared store up to date with its hub, and tells the owners of sessions what to merge.

    lost ──Back──> reading the list ──> following hints ──Lost──> lost

The hub tells which session changed (`HeadHint`). Hints may be lost, so the list of changed sessions is read on from the cursor
after each `Back` and at every heartbeat. The cursor moves only when everything before it is in the ledger.

A hub that was restored from an older backup has less than the ledger, or something else. What it lacks is given back to it under
the names that the operations had; what it has and we lack is fetched. Nothing is dropped here because the hub forgot it.

While the ledger cannot be written, nothing is fetched; it is tried again every second.

A ledger is of one store. If another one is found under the address, as after `leave` and `join` of another team's store that has
the same name, nothing is fetched from it and nothing is given to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from sessiond.errors import Conflict, SessiondError, Unauthorized, Unavailable
from sessiond.hub.port import (
    NOTHING,
    Back,
    HeadHint,
    Hint,
    HubHead,
    HubWelcome,
    Lost,
    Operation,
    Ordered,
    Push,
    Return,
    chain,
    seed,
)
from sessiond.limits import HUB_HEADS, HUB_LOOK_S, HUB_PAUSE_S, HUB_PULLS_AT_A_TIME, HUB_PUSH_BYTES, HUB_PUSH_OPERATIONS
from sessiond.shared import fold
from sessiond.shared.link import Differs
from sessiond.shared.listing import listed_head
from sessiond.shared.mirror import Mirror
from sessiond.shared.store import SharedStore

log = logging.getLogger(__name__)
_ATTEMPTS = 16
_SOON_S = 1.0


class Synchroniser:
    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._link = store.link
        self._ledger = store.link.ledger
        self._slots = asyncio.Semaphore(HUB_PULLS_AT_A_TIME)
        self._changed: dict[str, asyncio.Task[None]] = {}
        """Sessions of which a hint came, and what fetches them."""
        self._again: set[str] = set()
        """Those of them of which another hint has come since."""
        self._reached = False
        """What the hub said last: that it can be reached, or that it is lost."""
        self._missed = False
        """Hints came that were not followed."""
        self._task: asyncio.Task[None] | None = None
        self._mirror = Mirror(store, self._slots) if store.link.mirrors else None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"hub of {self._store.name}")

    async def stop(self) -> None:
        if self._mirror is not None:
            await self._mirror.stop()
        tasks = [*self._changed.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        looked = clock()
        while True:
            # A push may have found no answer although the hub can be reached: then it is asked again soon.
            well = self._link.up and self._ledger.problem is None
            hint = await self._next_hint(looked + HUB_LOOK_S - clock() if well else _SOON_S)
            if hint is None:
                looked = clock()
            if isinstance(hint, Lost | Back | HeadHint):
                self._reached = not isinstance(hint, Lost)
            await self._ledger.try_again()
            if self._ledger.problem is not None:
                self._missed = True
                continue
            if self._missed and self._reached:
                self._missed, hint = False, Back()
            try:
                await self._follow(hint)
            except* SessiondError as errors:
                for error in errors.exceptions:
                    self._not_read(error)
            except* Exception:  # a bug of ours: other changes must still come
                log.exception("store %s: the hub cannot be read", self._store.name)
            if isinstance(hint, Back):
                self._link.asked()

    def _not_read(self, error: BaseException) -> None:
        if isinstance(error, SessiondError) and not isinstance(error, Unavailable) and not self._link.up:
            self._link.kept_off(error.message)  # the hub can be reached, and yet nothing can be done there
        else:
            log.warning("store %s: the hub cannot be read: %s", self._store.name, error)

    async def _follow(self, hint: Hint | Differs | None) -> None:
        if isinstance(hint, Back) or (hint is None and self._reached):
            await self._catch_up()
        elif not self._link.ours:  # the list has it, once it is known that this is the right store
            if isinstance(hint, Differs):
                self._store.arrived([hint.session])
        elif isinstance(hint, HeadHint):
            self._hint(hint)
        elif isinstance(hint, Differs):
            await self._agree(hint.session, await self._link.hub.head(hint.session))

    async def _next_hint(self, seconds: float) -> Hint | Differs | None:
        """None if no hint came for so long, or if the time is over already, although hints keep coming."""
        if seconds <= 0:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._link.hints.get()
        return None

    # One session

    def _hint(self, hint: HeadHint) -> None:
        self._link.heard(hint.session, hint.head)
        if hint.head <= self._ledger.head(hint.session).number:
            return
        if hint.session in self._changed:
            self._again.add(hint.session)
            return
        self._changed[hint.session] = asyncio.create_task(self._fetch_all(hint.session))

    async def _fetch_all(self, local_id: str) -> None:
        try:
            await self._fetch(local_id)
            while await self._changed_again(local_id):
                await self._fetch(local_id)
        except SessiondError as error:  # the list has it when the hub is back
            log.info("store %s: %s was not fetched: %s", self._store.name, local_id, error.message)
        except Exception:
            log.exception("store %s: %s was not fetched", self._store.name, local_id)
        finally:  # at once: a hint that comes now needs a task of its own
            del self._changed[local_id]
            self._again.discard(local_id)

    async def _changed_again(self, local_id: str) -> bool:
        """Return whether there were hints since the last fetch. One fetch brings all that came in a pause, and indexes the session once."""
        if not self._store.attended(local_id):
            await asyncio.sleep(HUB_PAUSE_S)
        found = local_id in self._again
        self._again.discard(local_id)
        return found

    async def _fetch(self, local_id: str) -> None:
        async with self._slots:
            if await self._link.pull(local_id):
                self._store.arrived([local_id])

    # All sessions

    async def _catch_up(self) -> None:
        """Read the list of changed sessions, then let what waits be pushed. What the hub has lost comes before that: else words
        of this machine would be reordered.
        """
        link = self._link
        welcome = await link.hub.welcome()
        if link.refused:
            await link.hub.places([])  # Unauthorized while it is not a member; a list would only be empty
        if not await self._is_ours(welcome):
            return
        if not self._ledger.heads:
            link.came_up(welcome)  # a new machine has nothing to give back, and the list may be long
        seen: set[str] = set()
        whole, more = False, True
        while more:
            page = await link.hub.heads(self._ledger.cursor, HUB_HEADS)
            whole, more = whole or page.reset, page.more
            seen.update(head.session for head in page.heads)
            for head in page.heads:
                link.note_readable(head.session, head.problem)
            self._store.announce([head for head in page.heads if self._is_unknown(head.session)])
            async with asyncio.TaskGroup() as group:
                for head in page.heads:
                    if self._differs(head) and (head.session not in self._ledger.listed or listed_head(head) is None):
                        link.heard(head.session, head.head)
                        group.create_task(self._settle(head.session, head))
            # What cannot be read is tried again, also after the next start.
            self._ledger.keep_cursor(page.cursor, in_life=bool(link.unreadable))
        if whole:
            for local_id in [one for one in self._ledger.heads if one not in seen]:
                await self._settle(local_id, await link.hub.head(local_id))
            self._store.vanished([one for one in self._ledger.listed if one not in seen])
        for local_id in list(link.unreadable):  # a key may have been added
            found = await link.hub.head(local_id)
            link.note_readable(local_id, None if found is None else found.problem)
            await self._settle(local_id, found)
        link.came_up(welcome)
        self._store.arrived(list(self._ledger.waits))
        if self._mirror is not None:
            self._mirror.go_on()

    async def _is_ours(self, welcome: HubWelcome) -> bool:
        """Return whether the ledger is of this store; a ledger that does not know yet is from now on."""
        if not self._ledger.identity and welcome.identity:
            await self._ledger.keep_identity(welcome.identity)
        self._link.ours = self._ledger.identity == welcome.identity
        if not self._link.ours:
            self._link.is_another(self._ledger.path)
        return self._link.ours

    def _is_unknown(self, local_id: str) -> bool:
        return local_id not in self._ledger.heads and local_id not in self._ledger.waits

    def _differs(self, head: HubHead) -> bool:
        known = self._ledger.head(head.session)
        same = (known.number, known.digest) == (head.head, head.digest)
        return not same or (known.trashed and head.floor < head.head)

    async def _settle(self, local_id: str, head: HubHead | None) -> None:
        """Do the same as `_agree`; a session that cannot be settled does not hold up the others. Unavailable."""
        try:
            await self._agree(local_id, head)
        except Unavailable:
            raise
        except SessiondError as error:
            self._link.note_readable(local_id, error.message)

    async def _agree(self, local_id: str, head: HubHead | None) -> None:
        """Fetch what the ledger lacks, and give back what the hub lacks. SessiondError."""
        async with self._slots:
            for _ in range(_ATTEMPTS):
                async with self._link.turn(local_id):
                    if await self._step(local_id, head):
                        break
                head = await self._link.hub.head(local_id)
            else:
                raise Conflict(f"the hub and this machine do not agree on {local_id}")
        self._store.arrived([local_id])

    async def _step(self, local_id: str, head: HubHead | None) -> bool:
        """Fetch what is missing here, or give back what is missing on the hub. Return whether both have the same now."""
        if head is not None and head.floor < head.head and await self._is_erased(local_id):
            return await self._erase_again(local_id, head)
        known = self._ledger.head(local_id)
        number, digest = (NOTHING, seed(local_id)) if head is None else (head.head, head.digest)
        if number > known.number and not await self._link.extend(local_id):
            return await self._reunite(local_id)
        if number > known.number:
            return await self._lost_is_back(local_id)
        if await self._ledger.digest_at(local_id, number) != digest:
            return await self._reunite(local_id)
        if number == known.number:
            return await self._lost_is_back(local_id)
        lost = await self._ledger.operations(local_id, number)
        return await self._give_back(local_id, number, digest, lost)

    async def _is_erased(self, local_id: str) -> bool:
        known = self._ledger.head(local_id)
        rows = await self._ledger.operations(local_id, known.number - 1) if known.trashed else []
        return bool(rows) and rows[-1].kind == "erased"

    async def _erase_again(self, local_id: str, head: HubHead) -> bool:
        """The hub has words again that were erased. A member who may not erase says at least that they were."""
        mark = fold.mark("erased", self._link.now(), self._ledger.name)
        operation = Operation(mark.names[-1][1], mark.kind, mark.id, mark.body)
        try:
            answer = await self._link.hub.erase(Push(local_id, head.head, head.digest, [operation]))
        except Unauthorized:
            return await self._mark_erased(local_id, head)
        if answer.outcome in ("stored", "known"):
            log.warning("store %s: the hub had %s again, which was erased", self._store.name, local_id)
            await self._link.erased(local_id, mark.ordered(answer.head, self._link.member), answer.digest)
        return False

    async def _mark_erased(self, local_id: str, head: HubHead) -> bool:
        known = self._ledger.head(local_id)
        if head.digest == known.digest:
            return True
        page = await self._link.page(local_id, head.head - 1)
        if page is None or page.operations[-1].kind != "erased":
            mark = await self._ledger.operations(local_id, known.number - 1)
            await self._give_back(local_id, head.head, head.digest, mark)
        else:
            await self._link.erased(local_id, page.operations[-1], page.head.digest)
        return False

    async def _lost_is_back(self, local_id: str) -> bool:
        lost = await self._ledger.lost(local_id)
        if not lost:
            return True
        known = self._ledger.head(local_id)
        await self._give_back(local_id, known.number, known.digest, lost)
        return False

    async def _give_back(self, local_id: str, number: int, digest: bytes, lost: list[Ordered]) -> bool:
        log.warning("store %s: the hub has lost %d operations of %s", self._store.name, len(lost), local_id)
        while lost:
            size, many = 0, 0
            while many < len(lost) and many < HUB_PUSH_OPERATIONS and (not many or size < HUB_PUSH_BYTES):
                size += len(lost[many].body)
                many += 1
            answer = await self._link.hub.give_back(Return(local_id, number, digest, lost[:many]))
            if answer.outcome not in ("stored", "known") or answer.head != number + many:
                return False
            number, digest, lost = answer.head, answer.digest, lost[many:]
        return True

    async def _reunite(self, local_id: str) -> bool:
        """The hub has lost operations, and others are in their place. They come after what it has now. False: look again."""
        theirs: list[Ordered] = []
        common, digest, last = NOTHING, seed(local_id), b""
        more = True
        while more:
            page = await self._link.page(local_id, theirs[-1].number if theirs else NOTHING)
            if page is None:
                break
            theirs += page.operations
            more, last = page.more, page.head.digest
        if theirs and theirs[-1].kind == "erased":
            await self._link.erased(local_id, theirs[-1], last)
            return False
        known = self._ledger.head(local_id)
        for row in theirs:
            digest = chain(digest, row)
            if row.number > known.number or await self._ledger.digest_at(local_id, row.number) != digest:
                break
            common = row.number
        await self._ledger.cut(local_id, common)
        self._ledger.confirm(local_id, [row for row in theirs if row.number > common])
        return False
