"""A replica as simple as it can be: lists in memory instead of files. It does with a hub what a daemon has to do.

It stands for the daemon in the random histories of the hub alone, and is the shortest text that says how the protocol of
`sessiond.hub.port` is used: push on top of the head, fetch and plan again if behind, find the common past if the hub was restored.
"""

from __future__ import annotations

import random

from sessiond.errors import Indeterminate, SessionNotFound
from sessiond.hub.port import NOTHING, Hub, HubCursor, Operation, Ordered, Push, Pushed, Return, chain, chain_all, seed
from tests.hub.stores import operation_of


class Diverged(Exception):
    """The hub's session is not a continuation of ours."""


class Replica:
    """`own` are operations that wait for the hub, in their order; `acknowledged` those that it has confirmed."""

    def __init__(self, name: str, hub: Hub, chance: random.Random, *, may_lose: bool = False) -> None:
        """`may_lose`: the hub may be restored from an older backup."""
        self.name = name
        self.hub = hub
        self.sessions: dict[str, list[Ordered]] = {}
        self.own: dict[str, list[Operation]] = {}
        self.acknowledged: set[int] = set()
        self.unknown: list[Push] = []
        self.sent: list[Push] = []
        self.given_back = 0
        self.may_lose = may_lose
        self._chance = chance
        self._index = 0
        self._cursor: HubCursor | None = None
        self._pass: set[str] = set()

    def say(self, session: str) -> None:
        """Something new happens in a session; the hub does not know yet."""
        if session not in self.sessions and not self.own.get(session):
            self._index += 1
            self.own.setdefault(session, []).append(Operation(self._index, "created", None, b"\0{}"))
        for _ in range(self._chance.choice((1, 1, 1, 2, 5))):
            self._index += 1
            kind = self._chance.choice(("appended", "appended", "extended", "state", "note"))
            self.own.setdefault(session, []).append(operation_of(self._index, kind, self._chance))

    def head(self, session: str) -> tuple[int, bytes]:
        known = self.sessions.get(session, [])
        return (known[-1].number if known else NOTHING), chain_all(seed(session), known)

    async def push(self, session: str) -> None:
        """What waits in a session, on top of the head that we know."""
        waiting = self.own.get(session)
        if not waiting:
            return
        number, digest = self.head(session)
        if number != NOTHING and waiting[0].kind == "created":
            # Somebody else made it meanwhile: ours is the same session. Its index is never used.
            del waiting[0]
        push = Push(session, number, digest, list(waiting[: self._chance.randint(1, 20)]), b"listing")
        self.sent.append(push)
        try:
            done = await self.hub.push(push)
        except Indeterminate:
            self.unknown.append(push)
            await self.ask()
            return
        await self._done(push, done)

    async def ask(self) -> None:
        """What became of pushes whose answer was lost. What is not there is pushed again later."""
        for push in list(self.unknown):
            found = await self.hub.places([one.index for one in push.operations])
            assert self.may_lose or len(found) in (0, len(push.operations)), "a push is stored as a whole or not at all"
            assert {place.session for place in found.values()} <= {push.session}
            self.unknown.remove(push)
            if found:
                await self.fetch(push.session)
                assert set(found) <= self.acknowledged

    async def resend(self) -> None:
        """An old push once more, as after a lost answer: it adds nothing."""
        if not self.sent or self.may_lose:
            return
        push = self._chance.choice(self.sent[-20:])
        try:
            done = await self.hub.push(push)
        except Indeterminate:
            return
        if done.outcome == "stored":
            # It had not been stored before: then it is what waits now.
            await self._done(push, done)

    async def fetch(self, session: str) -> None:
        """What the hub has and we do not."""
        number, digest = self.head(session)
        fresh: list[Ordered] = []
        while True:
            try:
                page = await self.hub.operations(session, number, self._chance.choice((1, 500, 100_000)))
            except SessionNotFound:
                if number != NOTHING:
                    raise Diverged from None
                return
            for one in page.operations:
                if one.number != number + 1:
                    raise Diverged
                fresh.append(one)
                number, digest = one.number, chain(digest, one)
            if not page.more:
                break
        if (number, digest) != (page.head.head, page.head.digest):
            raise Diverged
        self._take(session, [*self.sessions.get(session, []), *fresh])

    async def synchronise(self, session: str) -> None:
        """Fetch; if the hub has forgotten something, give it back."""
        try:
            await self.fetch(session)
        except Diverged:
            await self._reconcile(session)

    async def read_list(self) -> None:
        """Fetch all sessions that changed. In a pass of all of them, those that no page shows are lost, and given back."""
        page = await self.hub.heads(self._cursor, self._chance.choice((1, 3, 100)))
        while True:
            if page.reset and (self._cursor is None or not self._cursor.whole or self._cursor.life != page.cursor.life):
                self._pass = set()
            for head in page.heads:
                self._pass.add(head.session)
                if (head.head, head.digest) != self.head(head.session):
                    await self.synchronise(head.session)
            if page.reset and not page.more:
                for session in self.sessions.keys() - self._pass:
                    await self.synchronise(session)
            self._cursor = page.cursor
            if not page.more:
                return
            page = await self.hub.heads(self._cursor, self._chance.choice((1, 3, 100)))

    async def _done(self, push: Push, done: Pushed) -> None:
        if done.outcome in ("stored", "known"):
            assert len(done.numbers) == len(push.operations)
            if done.outcome == "stored":
                assert list(done.numbers) == list(range(push.base + 1, push.base + 1 + len(push.operations)))
            await self.synchronise(push.session)
        elif done.outcome == "behind":
            await self.synchronise(push.session)
        else:
            await self._reconcile(push.session)

    def _take(self, session: str, whole: list[Ordered]) -> None:
        """The session is what the hub has. What of it is ours does not wait any more."""
        self.sessions[session] = whole
        ours = {one.index for one in whole if one.replica == self.name}
        self.acknowledged |= ours
        self.own[session] = [one for one in self.own.get(session, []) if one.index not in ours]

    async def _reconcile(self, session: str) -> None:
        """The hub has another past: take what it has, and give back what it lacks, on top of it."""
        mine = self.sessions.get(session, [])
        self.sessions[session] = []
        try:
            await self.fetch(session)
            there = {(one.replica, one.index) for one in self.sessions[session]}
            lost = [one for one in mine if (one.replica, one.index) not in there]
            if lost and lost[0].kind == "created" and self.sessions[session]:
                lost = lost[1:]
            while lost:
                number, digest = self.head(session)
                done = await self.hub.give_back(Return(session, number, digest, lost, b"listing"))
                self.given_back += done.outcome == "stored"
                await self.fetch(session)
                there = {(one.replica, one.index) for one in self.sessions[session]}
                lost = [one for one in lost if (one.replica, one.index) not in there]
        except BaseException:
            # Not finished: what we had is still what the hub has to get back.
            have = {(one.replica, one.index) for one in self.sessions[session]}
            self.sessions[session] += [one for one in mine if (one.replica, one.index) not in have]
            raise
