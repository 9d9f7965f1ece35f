"""A store on a server for tests, and the hubs that its members open."""

from __future__ import annotations

import itertools
import random
import secrets

from sessiond.hub.address import HubAddress
from sessiond.hub.bodies import pack_json
from sessiond.hub.port import NOTHING, Operation, Push, Pushed, seed
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.setup import Owner
from tests.hub.postgres import Server

MEMBERS = ("ada", "bob")


class Team:
    """The store `team` in a database of its own. Every hub that it opens is closed with it."""

    def __init__(self, server: Server, database: str) -> None:
        self.server = server
        self.database = database
        self._open: list[PostgresHub] = []

    @classmethod
    async def make(cls, server: Server, database: str, *, sealed: bool = False) -> Team:
        made = cls(server, database)
        server.sql(f"CREATE DATABASE {database}")
        for role in (*MEMBERS, "eve"):
            server.sql(f"DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        async with made.owner() as owner:
            assert await owner.make_schema()
            await owner.make_store(sealed=sealed)
            for role in MEMBERS:
                await owner.add_member(role, role.capitalize(), may_erase=role == "ada")
        return made

    def owner(self) -> Owner:
        return Owner(self.address("postgres"))

    def address(self, role: str, *, tcp: bool = False, port: int | None = None) -> HubAddress:
        return HubAddress("team", url=self.server.url(role, self.database, tcp=tcp or port is not None, port=port))

    def hub(
        self, role: str = "ada", *, replica: str | None = None, tcp: bool = False, port: int | None = None
    ) -> PostgresHub:
        made = PostgresHub(self.address(role, tcp=tcp, port=port), replica or secrets.token_hex(16))
        self._open.append(made)
        return made

    async def close(self) -> None:
        for hub in self._open:
            await hub.close()


_ids = itertools.count(1)


def message(index: int, text: str = "hello", message_id: str | None = None) -> Operation:
    """One appended message; its id is one that no other has, unless it is given."""
    body = pack_json({"at": "2026-01-01T00:00:00.000Z", "messages": [{"role": "user", "content": text}]})
    return Operation(index, "appended", f"m{next(_ids)}" if message_id is None else message_id, body)


def operation_of(index: int, kind: str, chance: random.Random) -> Operation:
    """An operation of any kind, of any size."""
    text = chance.choice(("", "ü", "word " * chance.randint(1, 200), "x" * chance.choice((1, 3000, 40_000))))
    named = kind in ("appended", "note")
    return Operation(index, kind, f"m{next(_ids)}\0ü" if named else None, pack_json({"text": text}))


def begin(session: str, index: int = 1, *more: Operation) -> Push:
    """A push that makes a session."""
    created = Operation(index, "created", None, pack_json({"at": "2026-01-01T00:00:00.000Z", "info": {}}))
    return Push(session, NOTHING, seed(session), [created, *more], b"listing of " + session.encode())


def after(pushed: Pushed, *operations: Operation) -> Push:
    """A push on top of another one."""
    return Push(pushed.session, pushed.head, pushed.digest, operations)
