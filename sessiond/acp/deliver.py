"""Takes the steps, over the client. Everything may be repeated: after a kill, steps are taken again from the first."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sessiond.acp.naming import names_of
from sessiond.acp.spool import MadeSessions
from sessiond.acp.steps import Caught, Ended, Grew, Kept, Learned, Said, SessionOpened, Step
from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.aio.reply import AsyncReply
from sessiond.client.aio.session import AsyncSession
from sessiond.client.types import NewMessage
from sessiond.errors import (
    AlreadyExists,
    Conflict,
    DaemonUnreachable,
    Indeterminate,
    ReadOnly,
    SessiondError,
    SessionNotFound,
    Unavailable,
)

LATER = (DaemonUnreachable, Indeterminate, ReadOnly, Unavailable)
"""Errors that pass: the same step may be taken later."""
_MOST_WAITING = 1000
"""Steps of a session in which nothing is said yet; of more, the oldest are left out."""
_STANDS_FOR = "(sessiond could not keep this message: %s)"


class Deliverer:
    """The sessions of one spool. `spool`: its name, by which sessions that it made are known again. `earlier`: waits until
    what earlier spools say is delivered. `made`: the sessions that it made when it was read before.
    """

    def __init__(
        self, client: AsyncSessiond, spool: str, earlier: Callable[[], Awaitable[None]], made: MadeSessions
    ) -> None:
        self._client = client
        self._spool = spool
        self._earlier = earlier
        self._made = made
        self._sessions: dict[str, AsyncSession] = {}
        self._waiting: dict[str, list[Step]] = {}
        """Of sessions in which nothing is said yet: an editor opens many that nobody uses."""
        self._gone: set[str] = set()
        """Somebody removed these: they are not looked for again with each step."""
        self.erased: set[str] = set()
        """Of these, the ones that were deleted for good, and whose words must not stay anywhere."""
        self._named: set[str] = set()
        self._given_names: dict[str, str] = {}
        """The names that sessions were given from here."""
        self._repeating: set[str] = set()
        """What the agent repeats of these is known already."""
        self._numbers: dict[str, int] = {}
        """How many messages of a session were taken since this began to read."""
        self._left: dict[str, dict[str, int]] = {}
        """Of sessions that a recorder before this one wrote to: what is in them of what it wrote, id -> seq."""
        self._replies: dict[str, AsyncReply] = {}
        self._on_tape: dict[str, Grew] = {}
        """By session: a piece that the reply has and the daemon did not take: it must not be written twice."""

    def session(self, key: str) -> AsyncSession | None:
        """The recorded session, by the agent's id of it; None while nothing is said in it."""
        return self._sessions.get(key)

    def live(self) -> list[tuple[str, AsyncSession]]:
        """Sessions in which the agent can be asked something, by its ids of them: what it repeats has been taken."""
        return [(key, session) for key, session in self._sessions.items() if key not in self._repeating]

    async def take(self, step: Step) -> None:
        """One step. One of LATER: take it again. A step that the daemon refuses is said on stderr and left out."""
        if isinstance(step, SessionOpened):
            self._waiting.setdefault(step.key, []).append(step)
            return
        waiting = self._waiting.get(step.key)
        if waiting is not None and not isinstance(step, Said):
            waiting.append(step)
            if len(waiting) > _MOST_WAITING:
                del waiting[1]
            return
        while waiting:
            await self._try(waiting[0])
            del waiting[0]
        self._waiting.pop(step.key, None)
        await self._try(step)
        if isinstance(step, Said):
            self._numbers[step.key] = number = self._number(step.key)
            if step.key in self._sessions:
                self._made.note_said(step.key, number)

    def _number(self, key: str) -> int:
        """Return the number of the next message of a session, in the order of the spool."""
        return self._numbers.get(key, 0) + 1

    async def flush(self) -> None:
        """Returns when all texts are durable. One of LATER: some are not."""
        refused: SessiondError | None = None
        for reply in list(self._replies.values()):
            try:
                await reply.flush()
            except LATER as error:
                refused = error
            except SessiondError as error:
                self._replies.pop(reply.id, None)
                print(f"{reply.id}: {error.message}", file=sys.stderr, flush=True)
        if refused is not None:
            raise refused

    async def _try(self, step: Step) -> None:
        try:
            await self._do(step)
        except LATER:
            raise
        except SessiondError as error:
            print(f"{type(step).__name__} {step.key}: {error.message}", file=sys.stderr, flush=True)

    async def _do(self, step: Step) -> None:
        if isinstance(step, SessionOpened):
            await self._open(step)
            return
        if isinstance(step, Caught):
            self._repeating.discard(step.key)
            return
        session = self._sessions.get(step.key)
        if session is None or (step.key in self._repeating and not isinstance(step, Learned | Kept)):
            return
        try:
            await self._add(session, step)
        except SessionNotFound:
            moved = None if step.key in self._gone else await self._moved(step.key)
            if moved is None:
                self._gone.add(step.key)
                raise
            self._took(step.key, moved)
            if not isinstance(step, Grew | Ended):  # the message was interrupted when it was moved
                await self._add(moved, step)

    def _took(self, key: str, session: AsyncSession) -> None:
        self._sessions[key] = session
        self._made.note(key, session.id)

    async def _moved(self, key: str) -> AsyncSession | None:
        """Return the session where it is now if somebody moved it to another store, where it has another id."""
        for archived in (False, True):
            async for info in self._client.sessions(archived=archived):
                acp = info.metadata.get("acp")
                if isinstance(acp, dict) and (acp.get("spool"), acp.get("sessionId")) == (self._spool, key):
                    return self._client.session(info.session_id)
        return None

    async def _add(self, session: AsyncSession, step: Step) -> None:
        match step:
            case Said():
                if not step.there:
                    await self._say(session, step)
            case Grew():
                await self._grow(step)
            case Ended():
                await self._end(session, step)
            case Learned():
                await self._know(session, step)
            case Kept():
                await session.set_state(step.values)

    async def _open(self, step: SessionOpened) -> None:
        if step.key in self._sessions:  # loaded once more by the same connection
            self._repeating.add(step.key)
            return
        before = self._made.id_of(step.key)
        if before is not None and not await self._is_there(before):
            moved = await self._moved(step.key)
            if moved is None:
                if not await self._is_in_trash(before):
                    self.erased.add(step.key)
                return  # somebody removed it, and it does not come back because this is read once more
            before = moved.id
        if not step.fresh:
            await self._earlier()
        named = await self._name(step) if before is None else before
        about = {"acp": {"agent": step.agent, "sessionId": step.key, "spool": self._spool}}
        try:
            if before is None:
                self._took(step.key, await self._client.new(id=named, cwd=step.cwd, metadata=about))
                return
        except AlreadyExists:
            pass
        session = self._client.session(named)
        info = await session.info()
        ours = info.metadata.get("acp", {}).get("spool") == self._spool
        if step.fresh and not ours:  # an agent that counts its sessions from 1 in each process
            named = f"{named}-{self._spool}"
            try:
                session = await self._client.new(id=named, cwd=step.cwd, metadata=about)
            except AlreadyExists:
                session = self._client.session(named)
        elif not step.fresh and not ours and info.message_count:
            self._repeating.add(step.key)
        if info.name and not (step.fresh and not ours):
            self._named.add(step.key)
        self._took(step.key, session)

    async def missing(self, key: str) -> None:
        """Look whether a session that was not found was deleted for good. SessiondError."""
        session = self._sessions.get(key)
        if session is None or key in self.erased or await self._is_there(session.id):
            return
        if await self._is_in_trash(session.id):
            return
        moved = await self._moved(key)
        if moved is None:
            self.erased.add(key)
        else:
            self._took(key, moved)

    async def _is_in_trash(self, session_id: str) -> bool:
        async for info in self._client.sessions(deleted=True):
            if info.session_id == session_id:
                return True
        return False

    async def _is_there(self, session_id: str) -> bool:
        try:
            await self._client.session(session_id).info()
        except SessionNotFound:
            return False
        return True

    async def _name(self, step: SessionOpened) -> str:
        """An editor may ask for a session by the name that a list of ours gave it."""
        *recorded, named = names_of(step.key)
        for one in () if step.fresh else recorded:
            if await self._is_there(one):
                return one
        return named

    async def _say(self, session: AsyncSession, step: Said) -> None:
        message = step.message
        if self._number(step.key) <= self._made.said(step.key):
            seq = (await self._left_of(step.key, session)).get(message.id or "")
            if seq is not None and message.status == "streaming":
                self._grows(session, message, seq)
            return  # somebody may have removed it, and it does not come back because this is read once more
        try:
            kept = (await session.append_all([message]))[0]
        except Conflict:
            return  # it is there, and somebody changed it since
        except (*LATER, SessionNotFound):
            raise
        except SessiondError as error:
            stand_in = msgspec.structs.replace(
                message, content=_STANDS_FOR % error.message, tool_calls=None, thinking=None, metadata=None
            )
            kept = (await session.append_all([stand_in]))[0]
            print(f"message {message.id}: {error.message}", file=sys.stderr, flush=True)
        if message.status == "streaming":
            self._grows(session, message, kept.seq)

    async def _left_of(self, key: str, session: AsyncSession) -> dict[str, int]:
        if key not in self._left:
            self._left[key] = {one.id: one.seq for one in await session.messages()}
        return self._left[key]

    def _grows(self, session: AsyncSession, message: NewMessage, seq: int) -> None:
        assert message.id is not None
        length = len(message.content) if isinstance(message.content, str) else 0
        self._replies[message.id] = AsyncReply(session._link, session.id, message.id, seq, length)

    async def _grow(self, step: Grew) -> None:
        reply = self._replies.get(step.message_id)
        if reply is None:
            return
        again, self._on_tape[step.key] = step is self._on_tape.get(step.key), step
        try:
            await (reply.flush() if again else reply.write(step.text))
        except Conflict:  # it has ended: we are reading the spool again
            self._replies.pop(step.message_id, None)

    async def _end(self, session: AsyncSession, step: Ended) -> None:
        reply = self._replies.pop(step.message_id, None)
        if reply is None:
            return
        try:
            await reply.finish(step.status, metadata=step.metadata, tool_calls=step.tool_calls)
        except Conflict:
            return
        except LATER:
            self._replies[step.message_id] = reply
            raise

    async def _know(self, session: AsyncSession, step: Learned) -> None:
        fields: dict[str, Any] = {}
        if step.name is not None and not (step.weak and step.key in self._named):
            ours = (None, "", self._given_names.get(step.key))
            if (await session.info()).name in ours:  # otherwise a person named it
                fields["name"] = self._given_names[step.key] = step.name
            self._named.add(step.key)
        if step.model is not None:
            fields["model"] = step.model
        if fields:
            await session.update(**fields)
