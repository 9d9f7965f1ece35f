"""`sessiond store`, as people type it, against a real server."""

from __future__ import annotations

import asyncio
import secrets
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sessiond.hub.address import HubAddress
from sessiond.hub.keys import new_key
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.sealing import SealedHub, Sealer
from sessiond.shared.ledger import Ledger
from sessiond.shared.waiting import Waiting
from tests.hub.postgres import Server
from tests.hub.stores import begin, message
from tests.shell import Done, Shell


@pytest.fixture
def database(server: Server) -> str:
    name = f"cli_{secrets.token_hex(6)}"
    server.sql(f"CREATE DATABASE {name}")
    for role in ("ada", "bob"):
        server.sql(f"DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    return name


def configured(shell: Shell) -> dict[str, Any]:
    file = shell.path / "config" / "config.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


def good(done: Done) -> str:
    assert done.code == 0, done
    return done.out


def bad(done: Done) -> str:
    """Why it failed: one line on stderr."""
    assert done.code == 1 and done.out == "" and done.err.count("\n") == 1, done
    return done.err


def test_from_nothing_to_a_store_that_two_use(shell: Shell, server: Server, database: str) -> None:
    """create, join, status, verify, members, leave: each does what it says, and the configuration is as before at the end."""
    owner, ada = server.url("postgres", database), server.url("ada", database)
    assert "with 1 member" in good(shell("store", "create", "team", "--url", owner, "--member", "ada=Ada"))
    assert "already" in bad(shell("store", "create", "team", "--url", owner))
    assert "joined team as Ada" in good(shell("store", "join", "team", "--url", ada))
    assert configured(shell) == {"stores": {"team": {"url": ada}}}
    assert "already exists" in bad(shell("store", "join", "team", "--url", ada))
    assert "as Ada" in good(shell("store", "status", "team"))
    status = shell("store", "status", "team", "--json").json
    assert (status["member"], status["sealed"], status["problem"]) == ("Ada", False, None)

    async def talk() -> None:
        hub = PostgresHub(HubAddress("team", url=ada), "a" * 32)
        await hub.push(begin("one", 1, message(2)))
        await hub.close()

    asyncio.run(talk())
    assert "1 session, 2 operations" in good(shell("store", "verify", "team"))
    server.sql("UPDATE sessiond.operations SET body = '\\x00' WHERE number = 1", database)
    done = shell("store", "verify", "team", "--json")
    assert (done.code, {one["kind"] for one in done.json["differences"]}) == (1, {"body", "digest"})
    listed = shell("store", "members", "team", "--url", owner, "--add", "bob=Bob", "--revoke", "Ada", "--json").json
    assert [(one["name"], one["revoked"]) for one in listed["members"]] == [("Ada", True), ("Bob", False)]
    assert "no store 'team' for this role" in bad(shell("store", "status", "team"))
    assert "left team" in good(shell("store", "leave", "team"))
    assert configured(shell) == {}
    assert "not a shared store of this machine" in bad(shell("store", "leave", "team"))


def test_an_encrypted_store_needs_its_key(shell: Shell, server: Server, database: str, tmp_path: Path) -> None:
    """join without it is refused, and nothing is configured; the file is for its owner only, and is never overwritten."""
    owner, ada = server.url("postgres", database), server.url("ada", database)
    key = tmp_path / "team.key"
    good(shell("store", "create", "team", "--url", owner, "--encrypted", "--member", "ada"))
    assert "is encrypted" in bad(shell("store", "join", "team", "--url", ada))
    assert configured(shell) == {}
    good(shell("store", "key", "new", str(key)))
    stranger = new_key()

    async def talk() -> None:
        bare = PostgresHub(HubAddress("team", url=ada), "a" * 32, sealed=True)
        hub = SealedHub(bare, Sealer(lambda: [stranger], "FILE"), "a" * 32)
        await hub.push(begin("one", 1, message(2)))
        await hub.close()

    asyncio.run(talk())
    assert stranger.id in bad(shell("store", "join", "team", "--url", ada, "--key-file", str(key)))
    assert configured(shell) == {}
    server.sql("DELETE FROM sessiond.operations; DELETE FROM sessiond.sessions", database)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "exists already" in bad(shell("store", "key", "new", str(key)))
    [line] = good(shell("store", "key", "show", str(key))).splitlines()
    good(shell("store", "key", "rotate", str(key)))
    assert good(shell("store", "key", "show", str(key))).splitlines()[0] == line
    good(
        shell(
            "store",
            "join",
            "team",
            "--as",
            "ours",
            "--url",
            ada,
            "--key-file",
            str(key),
            "--offline",
            "refuse",
            "--mirror",
        )
    )
    assert configured(shell)["stores"]["ours"] == {
        "url": ada, "store": "team", "key_file": str(key), "offline": "refuse", "mirror": True
    }  # fmt: skip
    assert shell("store", "status", "ours", "--json").json["sealed"]
    key.unlink()
    assert "nobody can read" in bad(shell("store", "verify", "ours"))


def test_another_store_of_the_same_name_does_not_get_what_was_fetched(
    shell: Shell, server: Server, database: str
) -> None:
    """The files of the one that was left get another name, but not while a daemon may use them. The same one goes on with them."""
    good(shell("store", "create", "team", "--url", server.url("postgres", database), "--member", "ada"))
    good(shell("store", "join", "team", "--url", server.url("ada", database)))
    identity = server.sql(
        "SELECT id || '.' || (extract(epoch FROM created_at) * 1000000)::bigint FROM sessiond.stores", database
    )
    shared = shell.data / "shared"
    folder = shared / "team"
    folder.mkdir(parents=True)
    (folder / "salaries.jsonl").write_text("9000")

    async def reached() -> None:
        ledger = Ledger(str(shared / "team.ledger"))
        await ledger.open()
        await ledger.keep_identity(identity)
        await ledger.close()

    asyncio.run(reached())
    good(shell("store", "leave", "team"))
    assert ".left-1" not in good(shell("store", "join", "team", "--url", server.url("ada", database)))
    assert (folder / "salaries.jsonl").exists() and not list(shared.glob("*.left-*"))
    good(shell("store", "leave", "team"))
    server.sql("DELETE FROM sessiond.members; DELETE FROM sessiond.stores", database)
    good(shell("store", "create", "team", "--url", server.url("postgres", database), "--member", "ada"))
    good(shell("new", "--id", "own"))
    assert "sessiond stop" in bad(shell("store", "join", "team", "--url", server.url("ada", database)))
    assert configured(shell) == {}
    good(shell("stop"))
    assert str(shared / "team.left-1") in good(shell("store", "join", "team", "--url", server.url("ada", database)))
    assert sorted(one.name for one in shared.iterdir()) == ["team.left-1", "team.left-1.ledger"]
    assert (shared / "team.left-1" / "salaries.jsonl").read_text() == "9000"


def test_create_makes_everything_or_nothing(shell: Shell, server: Server, database: str) -> None:
    """A role that does not exist is said before anything is there, and so is a name that no machine could use."""
    owner = server.url("postgres", database)
    assert "no role 'addda'" in bad(
        shell("store", "create", "team", "--url", owner, "--member", "ada", "--member", "addda")
    )
    assert server.sql("SELECT to_regclass('sessiond.stores') IS NULL", database) == "t"
    for name in ("Team", "a/b", "../x"):
        assert "not a valid store name" in bad(shell("store", "create", name, "--url", owner))
    good(shell("store", "create", "team", "--url", owner, "--member", "ada"))
    for name in ("Team", "../x"):
        assert "not a valid store name" in bad(
            shell("store", "join", "team", "--as", name, "--url", server.url("ada", database))
        )


def test_leave_says_what_was_never_shared(shell: Shell, server: Server, database: str) -> None:
    """And goes only with --force; also while a daemon has the ledger open."""
    good(shell("store", "create", "team", "--url", server.url("postgres", database), "--member", "ada"))
    good(shell("store", "join", "team", "--url", server.url("ada", database)))
    path = shell.data / "shared" / "team.ledger"
    path.parent.mkdir(parents=True)
    said: list[str] = []

    async def wait() -> None:
        ledger = Ledger(str(path))
        await ledger.open()
        await ledger.queue("s", [Waiting("appended", "m", b"\0{}", [ledger.name()])])
        said.append(bad(await asyncio.to_thread(shell, "store", "leave", "team")))
        await ledger.close()

    asyncio.run(wait())
    assert "1 change of team waits here" in said[0] and "--force" in said[0]
    assert "team" in configured(shell)["stores"]
    assert "left team" in good(shell("store", "leave", "team", "--force"))


def test_what_is_refused_changes_nothing(shell: Shell, server: Server, database: str) -> None:
    """A password in the URL, a clear way over a network, a hub that is not there or is not one, a role that is not a member."""
    secret = "correct-horse"
    url = server.url("ada", database)
    cases = [
        (f"postgresql://ada:{secret}@127.0.0.1:{server.port}/{database}", "holds a password"),
        ("postgresql://ada@db.example/x?sslmode=disable", "in the clear"),
        ("postgresql://ada@127.0.0.1:1/x", "cannot be reached"),
        (url, "has no hub"),
        (server.url("ada", "nothing_there"), "does not exist"),
    ]
    for wrong, says in cases:
        message = bad(shell("store", "join", "team", "--url", wrong))
        assert says in message and secret not in message
    good(shell("store", "create", "team", "--url", server.url("postgres", database)))
    assert "no store 'team'" in bad(shell("store", "join", "team", "--url", url)) or "permission denied" in bad(
        shell("store", "join", "team", "--url", url)
    )
    assert shell("store", "join", "team").code == 2
    assert configured(shell) == {}


def test_a_running_daemon_is_left_alone(shell: Shell, server: Server, database: str) -> None:
    """join and leave do not start or stop one."""
    good(shell("store", "create", "team", "--url", server.url("postgres", database), "--member", "ada"))
    good(shell("store", "join", "team", "--url", server.url("ada", database)))
    good(shell("store", "leave", "team"))
    assert not shell.held()
