"""The hub in PostgreSQL, as one daemon uses it. schema.sql is the other half.

Reads are plain statements, of which row-level security leaves what this member may see. Each is one statement, so what it returns is of one
moment. Changes go through functions; each is one statement too, and so one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import asyncpg
import msgspec

from sessiond.errors import ConfigError, Conflict, Indeterminate, SessionNotFound, Unauthorized, Unavailable
from sessiond.hub.address import HubAddress
from sessiond.hub.failures import LinkLost
from sessiond.hub.gathering import Gatherer
from sessiond.hub.links import Links
from sessiond.hub.listening import Listening
from sessiond.hub.port import (
    KINDS,
    HeadPage,
    Hint,
    HubCursor,
    HubHead,
    HubWelcome,
    OperationPage,
    OperationPlace,
    Ordered,
    Outcome,
    Push,
    Pushed,
    Return,
    code_of,
)

SCHEMA_VERSION = 1
_PAGE_ROWS = 2000

_OPEN = """
SELECT s.id, s.sealed, m.name, current_setting('server_version') AS server, v.version,
       s.id || '.' || (extract(epoch FROM s.created_at) * 1000000)::bigint AS identity,
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AS safe
FROM sessiond.stores s
JOIN sessiond.members m ON m.store = s.id AND m.role_name = session_user AND m.revoked_at IS NULL
CROSS JOIN sessiond.version v
WHERE s.name = $1
"""
_LIFE = """
SELECT md5(pg_postmaster_start_time()::text || ' ' || d.oid || ' ' || 'sessiond.sessions'::regclass::oid || ' '
           || pg_relation_filenode('sessiond.sessions')) AS life,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
       EXISTS (SELECT FROM sessiond.stores WHERE id = $1) AS member
FROM pg_database d WHERE d.datname = current_database()
"""
_HEADS = f"""
WITH l AS ({_LIFE})
SELECT l.life, l.horizon, l.member, s.session, s.head, s.digest, s.floor, s.before, s.listing, s.change
FROM l LEFT JOIN LATERAL (
    SELECT * FROM sessiond.sessions s
    WHERE s.store = $1 AND (s.change, s.session) > (CASE WHEN l.life = $5 THEN $2 ELSE 0 END, CASE WHEN l.life = $5 THEN $3 ELSE '' END)
    ORDER BY s.change, s.session LIMIT $4
) s ON true
ORDER BY s.change, s.session
"""  # noqa: S608
_HEAD = "SELECT session, head, digest, floor, before, listing FROM sessiond.sessions WHERE store = $1 AND session = $2"
_OPERATIONS = """
WITH h AS MATERIALIZED (
    SELECT id, head, digest, floor, before, listing FROM sessiond.sessions WHERE store = $1 AND session = $2
)
SELECT false AS later, h.head AS number, h.floor AS index, h.before AS replica, NULL::smallint AS kind, h.digest AS id, NULL::text AS author,
       NULL::text AS voucher, 0::bigint AS received, h.listing AS body
FROM h
UNION ALL
SELECT true, o.number, o.index, uuid_send(r.replica), o.kind, o.id, a.name, v.name,
       (extract(epoch FROM o.received) * 1000000)::bigint, o.body
FROM (
    SELECT p.*, sum(length(p.body) + 200) OVER (ORDER BY p.number) - length(p.body) - 200 AS before
    FROM (
        SELECT x.* FROM h JOIN sessiond.operations x ON x.session = h.id WHERE x.number > $3 ORDER BY x.number LIMIT $5
    ) p
) o
JOIN sessiond.replicas r ON r.id = o.replica
JOIN sessiond.members a ON a.id = o.author
LEFT JOIN sessiond.members v ON v.id = o.voucher
WHERE o.before < $4
ORDER BY later, number
"""
_PUSH = (
    "SELECT place, outcome, head, digest, numbers FROM sessiond.push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
)
_GIVE_BACK = "SELECT * FROM sessiond.give_back($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
_ERASE = "SELECT * FROM sessiond.erase($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
_SETTLE = "SELECT * FROM sessiond.settle($1, $2, $3, $4)"


class _Opened(msgspec.Struct, frozen=True):
    """The facts that are known of the store after the first contact."""

    store: int
    welcome: HubWelcome


class PostgresHub:
    """A `Hub`. Made and closed on the loop that uses it; does nothing before the first call."""

    def __init__(self, address: HubAddress, replica: str | None, *, sealed: bool | None = None) -> None:
        """`replica`: 32 hexadecimal digits, new in each life of a ledger; None: this one only reads. `sealed`: whether the caller has
        a key; None: it does not read contents.
        """
        self._address = address
        self._replica = replica
        self._sealed = sealed
        self._opened: _Opened | None = None
        self._stale = False
        """The hub was lost since, and may be another one now."""
        self._opening = asyncio.Lock()
        self._fence = 0
        self._asking = asyncio.Lock()
        """Held while the hub raises the fence, until its answer is noted."""
        self._links = Links(address, self._trouble)
        self._gatherer = Gatherer(self._push_together)
        self._listening = Listening(address, self._channel_now, self._poll, self._lost)

    async def welcome(self) -> HubWelcome:
        opened = self._opened or await self._open()
        return msgspec.structs.replace(opened.welcome, hints=self._listening.way)

    def subscribe(self, listener: Callable[[Hint], None]) -> None:
        self._listening.subscribe(listener)

    async def push(self, push: Push) -> Pushed:
        _check(push)
        return await self._gatherer.push(push)

    async def give_back(self, lost: Return) -> Pushed:
        opened = await self._open()
        many = lost.operations
        arguments = (
            opened.store, lost.session, lost.base, lost.digest, lost.listing, *_columns([one.operation for one in many]),
            [one.replica for one in many], [one.author for one in many],
        )  # fmt: skip
        [row] = await self._change(_GIVE_BACK, arguments)
        return _pushed(lost.session, row)

    async def erase(self, push: Push) -> Pushed:
        opened = await self._open()
        [one] = push.operations
        rest = (push.session, push.base, push.digest, push.listing, code_of(one.kind), one.index, one.body)
        [row] = await self._fenced(_ERASE, opened.store, rest)
        return _pushed(push.session, row)

    async def places(self, indices: Sequence[int]) -> dict[int, OperationPlace]:
        opened = await self._open()
        return await self._settle(opened.store, indices)

    async def heads(self, cursor: HubCursor | None, limit: int) -> HeadPage:
        opened = await self._open()
        at = cursor or HubCursor("", 0, "", 0, True)
        rows = await self._read(_HEADS, opened.store, at.change, at.session, limit, at.life)
        life, horizon = rows[0]["life"], rows[0]["horizon"]
        if not rows[0]["member"]:
            raise self._no_member()
        if life != at.life:
            at = HubCursor(life, 0, "", horizon, True)
        found = [_head(row) for row in rows if row["session"] is not None]
        more = len(found) == limit
        if more:
            last = rows[-1]
            following = HubCursor(life, last["change"], last["session"], at.horizon or horizon, at.whole)
        else:
            # What was still running when the pass began is not surely in it.
            following = HubCursor(life, at.horizon or horizon, "", 0, False)
        return HeadPage(found, following, more, at.whole)

    async def head(self, session: str) -> HubHead | None:
        opened = await self._open()
        rows = await self._read(_HEAD, opened.store, session)
        if not rows:
            await self._channel_now()  # who is not a member any more sees nothing either
        return _head(rows[0]) if rows else None

    async def operations(self, session: str, after: int, max_bytes: int) -> OperationPage:
        opened = await self._open()
        rows = await self._read(_OPERATIONS, opened.store, session, after, max_bytes, _PAGE_ROWS)
        if not rows:
            await self._channel_now()
            raise SessionNotFound(f"the hub has no session {session}")
        first, *others = rows
        head = HubHead(session, first["number"], first["id"], first["index"], first["replica"], first["body"])
        found = [
            Ordered(
                row["number"], row["replica"].hex(), row["index"], KINDS[row["kind"]],
                None if row["id"] is None else row["id"].decode(), row["author"], row["voucher"], row["received"], row["body"],
            )
            for row in others
        ]  # fmt: skip
        return OperationPage(found, head, bool(found) and found[-1].number < head.head)

    async def close(self) -> None:
        await self._listening.close()
        await self._gatherer.close()
        self._links.close()

    # Inside

    async def _open(self) -> _Opened:
        if self._opened is None or self._stale:
            async with self._opening:
                if self._opened is None or self._stale:
                    self._stale = False
                    try:
                        self._opened = await self._first_contact()
                    except BaseException:
                        self._stale = True
                        raise
        return self._opened

    async def _first_contact(self) -> _Opened:
        rows = await self._read(_OPEN, self._address.store)
        if not rows:
            raise self._no_member()
        row = rows[0]
        if row["version"] != SCHEMA_VERSION:
            raise ConfigError(
                f"the hub {self._address.shown()} has version {row['version']}, this program needs {SCHEMA_VERSION}",
                hint="run `sessiond store create` again, with the newer program",
            )
        if self._sealed is not None and self._sealed != row["sealed"]:
            message = (
                "is encrypted, and no key_file is set" if row["sealed"] else "is not encrypted, but a key_file is set"
            )
            raise ConfigError(
                f"the store {self._address.store} {message}",
                hint="set what `sessiond store join` of another machine has",
            )
        problem = (
            None
            if row["safe"]
            else "the server runs with fsync or full_page_writes off: a crash may lose what it confirmed"
        )
        hello = HubWelcome(
            self._address.store, row["name"], row["sealed"], "listening", row["server"], problem, row["identity"]
        )
        # A push of an earlier process of this replica may still be on its way.
        if self._replica is not None:
            await self._settle(row["id"], ())
        return _Opened(row["id"], hello)

    def _no_member(self) -> Unauthorized:
        return Unauthorized(
            f"{self._address.shown()} has no store {self._address.store!r} for this role",
            hint="whoever runs the hub adds members with `sessiond store members`",
        )

    async def _settle(self, store: int, indices: Sequence[int]) -> dict[int, OperationPlace]:
        async with self._asking:
            try:
                [row] = await self._read(_SETTLE, store, self._replica, self._fence, list(indices))
            except BaseException:
                self._stale = True  # the hub may have raised the fence: nothing is stored until it says how far
                raise
            self._fence = max(self._fence, row["fence"])
        if row["found_indices"] is None:
            return {}
        found = zip(row["found_indices"], row["sessions"], row["numbers"], strict=True)
        return {index: OperationPlace(session, number) for index, session, number in found}

    async def _read(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Rows of a statement that may be carried out more than once. A link that was idle and is gone is tried again once."""
        try:
            return await self._links.run(lambda connection: connection.fetch(statement, *arguments))
        except LinkLost:
            try:
                return await self._links.run(lambda connection: connection.fetch(statement, *arguments))
            except LinkLost as error:
                raise Unavailable(error.message) from None

    async def _change(self, statement: str, arguments: Sequence[object]) -> list[asyncpg.Record]:
        try:
            return await self._links.run(lambda connection: connection.fetch(statement, *arguments))
        except LinkLost as error:
            raise Indeterminate(error.message, hint="it may or may not be on the hub") from None

    async def _fenced(self, statement: str, store: int, rest: Sequence[object]) -> list[asyncpg.Record]:
        """A change under this replica's name and fence."""
        while True:
            fence = self._fence
            try:
                return await self._change(statement, (store, self._replica, fence, *rest))
            except Conflict as error:
                # `places` raised the fence while this was on its way, so it is certain that it was not stored.
                if not error.data.get("replica"):
                    raise
                async with self._asking:  # the refusal may be here before the answer that says how far
                    pass
                if self._stale:
                    await self._open()
                if self._fence == fence:
                    raise

    async def _push_together(self, pushes: Sequence[Push]) -> list[Pushed]:
        opened = await self._open()
        every = [one for push in pushes for one in push.operations]
        rest = (
            [push.session for push in pushes], [push.base for push in pushes], [push.digest for push in pushes],
            [push.listing for push in pushes], [len(push.operations) for push in pushes], *_columns(every),
        )  # fmt: skip
        rows = await self._fenced(_PUSH, opened.store, rest)
        by_place = {row["place"]: row for row in rows}
        return [_pushed(push.session, by_place[place]) for place, push in enumerate(pushes, 1)]

    def _lost(self) -> None:
        self._stale = True
        self._links.drop_idle()

    def _trouble(self) -> None:
        self._listening.look()

    async def _channel_now(self) -> str:
        """Return the channel on which hints are told now. Unauthorized."""
        opened = await self._open()
        rows = await self._read("SELECT channel FROM sessiond.stores WHERE id = $1", opened.store)
        if not rows:
            raise self._no_member()
        channel: str = rows[0]["channel"]
        return channel

    async def _poll(self, cursor: HubCursor | None) -> HeadPage:
        return await self.heads(cursor, 1000)


def _columns(many: Sequence[Any]) -> tuple[list[int], list[bytes | None], list[int], list[bytes]]:
    """Kinds, ids, indices and bodies, as the functions take them."""
    return (
        [code_of(one.kind) for one in many],
        [None if one.id is None else one.id.encode() for one in many],
        [one.index for one in many],
        [one.body for one in many],
    )


def _check(push: Push) -> None:
    """A mistake here would fail the pushes that share a transaction with this one."""
    indices = [one.index for one in push.operations]
    ids = [one.id for one in push.operations if one.id is not None]
    if not indices or any(later <= earlier for earlier, later in pairwise(indices)):
        raise ValueError("a push has operations, and their indices rise")
    if len(set(ids)) < len(ids):
        raise ValueError("two operations of a push have the same id")
    if "\0" in push.session or not push.session:
        raise ValueError("a session's name is not empty and has no NUL")


def _head(row: asyncpg.Record) -> HubHead:
    return HubHead(row["session"], row["head"], row["digest"], row["floor"], row["before"], row["listing"])


def _pushed(session: str, row: asyncpg.Record) -> Pushed:
    outcome: Outcome = row["outcome"]
    return Pushed(session, outcome, row["head"], row["digest"], tuple(row["numbers"] or ()))
