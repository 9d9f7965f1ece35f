"""What a member's role may do on the hub, and what nobody else may."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from sessiond.errors import AlreadyExists, ConfigError, InvalidParams, Unauthorized
from sessiond.hub.address import HubAddress
from sessiond.hub.port import NOTHING, Back, HeadHint, Lost, Operation, Push
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.setup import Owner
from tests.hub.stores import Team, after, begin, message

FORBIDDEN = [
    "INSERT INTO sessiond.members (store, role_name, name) VALUES (1, 'eve', 'Eve')",
    "UPDATE sessiond.members SET may_erase = true",
    "UPDATE sessiond.operations SET body = ''",
    "UPDATE sessiond.sessions SET head = 0",
    "DELETE FROM sessiond.operations",
    "TRUNCATE sessiond.operations",
    "ALTER TABLE sessiond.operations DROP COLUMN body",
    "ALTER TABLE sessiond.operations DISABLE ROW LEVEL SECURITY",
    "DROP SCHEMA sessiond CASCADE",
    "CREATE TABLE sessiond.mine (i int)",
    "SELECT sessiond.caller(1)",
    "SELECT sessiond.tell(1, 's', 1)",
    "SELECT sessiond.replica_of(1, gen_random_uuid(), 1)",
    "SELECT sessiond.store_operations(1, 's', -1, '', NULL, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 1)",
    "SET SESSION AUTHORIZATION postgres",
    "SET ROLE postgres",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_a_member_cannot_rewrite_anything(team: Team, statement: str) -> None:
    """Neither tables, nor history, nor what the functions use inside."""
    await team.hub().push(begin("one"))
    before = team.server.dump(team.database)
    link = await asyncpg.connect(team.address("ada").url)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await link.execute(statement)
    finally:
        await link.close()
    assert [line for line in team.server.dump(team.database).splitlines() if not line.startswith(b"\\")] == [
        line for line in before.splitlines() if not line.startswith(b"\\")
    ]


async def test_each_sees_its_stores_only(team: Team) -> None:
    """A member of another store of the same hub sees nothing of this one, by whatever statement; a stranger sees no table."""
    await team.hub().push(begin("one"))
    other = HubAddress("others", url=team.address("postgres").url)
    async with Owner(other) as owner:
        assert not await owner.make_schema()
        await owner.make_store(sealed=False)
        await owner.add_member("eve", "Eve")
    eve = PostgresHub(HubAddress("others", url=team.address("eve").url), "e" * 32)
    assert (await eve.heads(None, 10)).heads == []
    await eve.push(begin("one"))
    assert [head.session for head in (await eve.heads(None, 10)).heads] == ["one"]
    await eve.close()
    for table in ("stores", "members", "replicas", "sessions", "operations"):
        count = team.server.sql(
            f"SELECT count(*) FROM sessiond.{table} WHERE to_jsonb({table})->>'store' = '1'", team.database, "eve"
        )
        assert count == "0", table
    with pytest.raises(Unauthorized):
        await team.hub("eve").welcome()
    link = await asyncpg.connect(team.address("eve").url)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await link.fetch(
                "SELECT sessiond.push(1, gen_random_uuid(), 0, '{s}', '{-1}', '{\\\\x00}', '{NULL}', '{0}', '{}', '{}', '{}', '{}')"
            )
    finally:
        await link.close()


async def test_a_replica_belongs_to_one_member(team: Team) -> None:
    """Another member cannot push under its name, and so cannot use up its indices."""
    replica = "a" * 32
    await team.hub("ada", replica=replica).push(begin("one"))
    with pytest.raises(Unauthorized):
        await team.hub("bob", replica=replica).push(begin("two", 2))


async def test_only_who_may_erases(team: Team) -> None:
    """Bob may not; nothing is lost when he tries."""
    bob = team.hub("bob")
    made = await bob.push(begin("one", 1, message(2)))
    with pytest.raises(Unauthorized):
        await bob.erase(Push("one", made.head, made.digest, [Operation(3, "erased", None, b"\0{}")]))
    assert len((await bob.operations("one", NOTHING, 1000)).operations) == 2


async def test_a_revoked_member_is_refused_and_hears_nothing(team: Team) -> None:
    """Reading and writing are `unauthorized`, the hints end; the others go on, and hear of the next change."""
    ada, bob = team.hub("ada"), team.hub("bob")
    heard: asyncio.Queue = asyncio.Queue()
    told: asyncio.Queue = asyncio.Queue()
    bob.subscribe(heard.put_nowait)
    ada.subscribe(told.put_nowait)
    assert isinstance(await heard.get(), Back) and isinstance(await told.get(), Back)
    made = await bob.push(begin("one"))
    deaf = team.hub("bob")  # it listens to nothing, and so learns it from the functions
    others = await deaf.push(begin("two"))
    async with team.owner() as owner:
        await owner.revoke("Bob")
    with pytest.raises(Unauthorized):
        await deaf.push(after(others, message(2)))
    for call in (
        bob.push(after(made, message(2))), bob.heads(None, 10), bob.head("one"), bob.operations("one", NOTHING, 100), bob.places([1]),
    ):  # fmt: skip
        with pytest.raises(Unauthorized):
            await call
    while not isinstance(hint := await heard.get(), Lost):
        pass
    assert "no store" in hint.reason
    while not isinstance(await told.get(), Lost):
        pass
    while not isinstance(await told.get(), Back):
        pass
    await ada.push(after(made, message(1)))
    while await told.get() != HeadHint("one", 1):
        pass
    assert heard.empty()
    async with team.owner() as owner:
        await owner.add_member("bob", "Bob")
    assert (await bob.head("one")).head == 1


async def test_names_never_change_hands(team: Team) -> None:
    """Digests hold them. A role that does not exist cannot be a member."""
    async with team.owner() as owner:
        with pytest.raises(AlreadyExists):
            await owner.add_member("eve", "Ada")
        with pytest.raises(AlreadyExists):
            await owner.add_member("ada", "Adele")
        with pytest.raises(InvalidParams, match="has no role"):
            await owner.add_member("nobody-there", "Nobody")
        with pytest.raises(AlreadyExists):
            await owner.make_store(sealed=False)
        assert [(one.role, one.name, one.may_erase) for one in await owner.members()] == [
            ("ada", "Ada", True), ("bob", "Bob", False)
        ]  # fmt: skip


async def test_a_key_is_set_on_both_sides_or_on_none(team: Team) -> None:
    """A daemon without the key of an encrypted store, or with a key for one that is not, is told so and does nothing."""
    hub = PostgresHub(team.address("ada"), "f" * 32, sealed=True)
    with pytest.raises(ConfigError, match="is not encrypted"):
        await hub.welcome()
    await hub.close()


async def test_what_it_says_means_that_it_is_on_the_disk(team: Team) -> None:
    """Even for a role that has turned off synchronous commits."""
    team.server.sql("ALTER ROLE bob SET synchronous_commit = off")
    hub = team.hub("bob")
    await hub.push(begin("one"))
    link = await asyncpg.connect(team.address("bob").url)
    try:
        assert await link.fetchval("SHOW synchronous_commit") == "off"
        async with link.transaction():
            await link.execute("SELECT sessiond.settle(1, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 0, '{}')")
            assert await link.fetchval("SHOW synchronous_commit") == "on"
    finally:
        await link.close()
        team.server.sql("ALTER ROLE bob RESET synchronous_commit")


async def test_passwords_come_from_a_file_and_are_never_shown(team: Team, tmp_path, monkeypatch) -> None:
    """A role that needs one gets in by password_file, by pgpass or by PGPASSWORD. No error, shown address or repr holds it."""
    secret = "correct-horse-battery"
    server = team.server
    server.sql(f"ALTER ROLE ada PASSWORD '{secret}'")
    rules = server.data / "pg_hba.conf"
    old = rules.read_text()
    rules.write_text("host all ada 127.0.0.1/32 scram-sha-256\n" + old)
    server.sql("SELECT pg_reload_conf()")
    try:
        url = team.address("ada", tcp=True).url
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
        with pytest.raises(Unauthorized) as caught:
            await PostgresHub(HubAddress("team", url=url), None).welcome()
        assert secret not in repr(caught.value)
        file = tmp_path / "password"
        file.write_text(secret + "\n")
        with pytest.raises(ConfigError, match="read by others"):
            await PostgresHub(HubAddress("team", url=url, password_file=str(file)), None).welcome()
        file.chmod(0o600)
        addresses = [HubAddress("team", url=url, password_file=str(file))]
        for address in addresses:
            hub = PostgresHub(address, None)
            assert (await hub.welcome()).member == "Ada"
            assert secret not in address.shown() + repr(address)
            await hub.close()
        (tmp_path / "pgpass").write_text(f"127.0.0.1:{server.port}:*:ada:{secret}\n")
        (tmp_path / "pgpass").chmod(0o600)
        for variable in (None, ("PGPASSWORD", secret)):
            if variable:
                monkeypatch.setenv("PGPASSFILE", "/nonexistent")
                monkeypatch.setenv(*variable)
            hub = PostgresHub(HubAddress("team", url=url), None)
            assert (await hub.welcome()).member == "Ada"
            await hub.close()
    finally:
        rules.write_text(old)
        server.sql("SELECT pg_reload_conf(); ALTER ROLE ada PASSWORD NULL")
