"""The work of whoever runs a hub: make the schema and stores, add and revoke members. Needs the database's owner, not a daemon's role.

A member's role gets the least that a daemon needs: it may read the tables, of which row-level security shows it its stores, and call the
functions that push.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import asyncpg
import msgspec

from sessiond.errors import AlreadyExists, ConfigError, InvalidParams
from sessiond.hub.address import HubAddress
from sessiond.hub.failures import OF_ASYNCPG, meaning
from sessiond.hub.links import connect

_TABLES = ("version", "stores", "members", "replicas", "sessions", "operations")
_FUNCTIONS = ("my_stores", "push", "give_back", "erase", "settle")


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """`revoked`: its daemons get `unauthorized`; what it wrote stays."""

    role: str
    name: str
    may_erase: bool
    revoked: bool


class Owner:
    """The owner of a hub, on one connection. Use it as `async with`."""

    def __init__(self, address: HubAddress) -> None:
        self._address = address

    async def __aenter__(self) -> Owner:
        self._connection = (await connect(self._address, pooled=False)).connection
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self._connection.close(timeout=5)
        except OF_ASYNCPG as failure:
            if error is None:
                raise meaning(failure, self._address.shown()) from None
        if isinstance(error, OF_ASYNCPG):
            raise meaning(error, self._address.shown()) from None

    async def make_with(self, members: Sequence[tuple[str, str]], *, sealed: bool) -> bool:
        """Make the store with its members (role and name), or nothing at all. False: the database was a hub already. InvalidParams,
        AlreadyExists.
        """
        async with self._connection.transaction():
            fresh = await self.make_schema()
            await self.make_store(sealed=sealed)
            for role, name in members:
                await self.add_member(role, name)
        return fresh

    async def make_schema(self) -> bool:
        """Make what a hub needs in the database. False: it was there already."""
        async with self._connection.transaction():
            # Two of them at once would both make it.
            await self._connection.execute("SELECT pg_advisory_xact_lock(8242017)")
            if await self._connection.fetchval("SELECT to_regclass('sessiond.version')") is not None:
                return False
            await self._connection.execute((files("sessiond.hub") / "schema.sql").read_text("utf-8"))
        return True

    async def make_store(self, *, sealed: bool) -> None:
        """AlreadyExists."""
        try:
            await self._connection.execute(
                "INSERT INTO sessiond.stores (name, sealed) VALUES ($1, $2)", self._address.store, sealed
            )
        except asyncpg.UniqueViolationError:
            raise AlreadyExists(f"the hub has a store {self._address.store!r} already") from None

    async def role(self) -> str:
        """The role that this connection has logged in as."""
        name: str = await self._connection.fetchval("SELECT session_user::text")
        return name

    async def add_member(self, role: str, name: str, *, may_erase: bool = False) -> None:
        """Add a member, or let a revoked one in again. InvalidParams: there is no such role; AlreadyExists: the name is another's."""
        if not name or "\0" in name or len(name) > 100:
            raise InvalidParams("a member's name has 1 to 100 characters")
        async with self._connection.transaction():
            store = await self._store()
            quoted = await self._connection.fetchval(
                "SELECT quote_ident(rolname) FROM pg_roles WHERE rolname = $1", role
            )
            if quoted is None:
                raise InvalidParams(f"PostgreSQL has no role {role!r}", hint=f"make it: createuser --pwprompt {role}")
            await self._grant(quoted)
            known = await self._connection.fetchrow(
                "SELECT id, role_name::text, name FROM sessiond.members WHERE store = $1 AND (role_name = $2 OR name = $3)"
                " ORDER BY role_name = $2 DESC",
                store, role, name,
            )  # fmt: skip
            if known is None:
                await self._connection.execute(
                    "INSERT INTO sessiond.members (store, role_name, name, may_erase) VALUES ($1, $2, $3, $4)",
                    store, role, name, may_erase,
                )  # fmt: skip
            elif known["name"] != name or (known["role_name"] != role and not known["role_name"].startswith("lost:")):
                raise AlreadyExists(
                    f"{known['role_name']} is the member {known['name']!r}", hint="names never change hands"
                )
            else:
                await self._connection.execute(
                    "UPDATE sessiond.members SET role_name = $2, may_erase = $3, revoked_at = NULL WHERE id = $1",
                    known["id"], role, may_erase,
                )  # fmt: skip

    async def revoke(self, name: str) -> None:
        """Revoke a member. What the member wrote stays, and so does the replica on its machine. InvalidParams."""
        done = await self._connection.execute(
            "UPDATE sessiond.members SET revoked_at = now() WHERE store = $1 AND name = $2 AND revoked_at IS NULL",
            await self._store(), name,
        )  # fmt: skip
        if done != "UPDATE 1":
            raise InvalidParams(f"{self._address.store} has no member {name!r}")
        # Who listens goes on to hear: so the others move to a channel whose name the revoked member cannot read.
        await self._connection.execute(
            "WITH old AS (SELECT id, channel FROM sessiond.stores WHERE id = $1),"
            " moved AS (UPDATE sessiond.stores s SET channel = DEFAULT FROM old WHERE s.id = old.id)"
            " SELECT pg_notify(channel, '') FROM old",
            await self._store(),
        )

    async def members(self) -> list[Member]:
        rows = await self._connection.fetch(
            "SELECT role_name::text, name, may_erase, revoked_at IS NOT NULL AS revoked FROM sessiond.members"
            " WHERE store = $1 ORDER BY id",
            await self._store(),
        )  # fmt: skip
        return [Member(row["role_name"], row["name"], row["may_erase"], row["revoked"]) for row in rows]

    async def _store(self) -> int:
        try:
            store = await self._connection.fetchval(
                "SELECT id FROM sessiond.stores WHERE name = $1", self._address.store
            )
        except asyncpg.UndefinedTableError:
            store = None
        if store is None:
            raise ConfigError(f"there is no store {self._address.store!r}", hint="make it with `sessiond store create`")
        found: int = store
        return found

    async def _grant(self, role: str) -> None:
        """`role` is quoted already."""
        tables = ", ".join(f"sessiond.{table}" for table in _TABLES)
        functions = ", ".join(f"sessiond.{function}" for function in _FUNCTIONS)
        await self._connection.execute(f"GRANT USAGE ON SCHEMA sessiond TO {role}")
        await self._connection.execute(f"GRANT SELECT ON {tables} TO {role}")
        await self._connection.execute(f"GRANT EXECUTE ON FUNCTION {functions} TO {role}")
