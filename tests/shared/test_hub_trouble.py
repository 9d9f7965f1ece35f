"""What the hub may do to machines that share a store: die, forget, refuse, and keep what it cannot read."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from sessiond.hub.address import HubAddress
from sessiond.hub.keys import new_key
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.sealing import SealedHub, Sealer
from sessiond.hub.setup import Owner
from tests.hub.postgres import Server
from tests.hub.stores import begin, message
from tests.shared.conftest import Machines
from tests.shared.machines import Machine, make_team, until, until_same
from tests.shared.test_sharing import shared_session


def test_a_hub_that_was_restored_from_an_older_backup(machines: Machines, own_server: Server, tmp_path: Path) -> None:
    """What it lost is given back, with the same seqs; what was appended meanwhile comes after it; nobody deletes anything."""
    a, b = machines(2, server=own_server)
    session = shared_session(a, b)
    own_server.stop()
    own_server.copy_to(tmp_path / "backup")
    own_server.start()
    a.until_shared()
    b.until_shared()
    later = shared_session(b, a, texts=("later",))
    a.append(session, "lost 1")
    b.append(session, "lost 2")
    until(lambda: a.sessions()[session] == b.sessions()[session] == 3)
    own_server.kill()
    own_server.restore_from(tmp_path / "backup")
    for machine in (a, b):
        machine.until_offline()
    assert a.append(session, "offline")["provisional"]
    own_server.start()
    until_same([a, b])
    assert a.texts(session) == ["first", "lost 1", "lost 2", "offline"]
    assert b.texts(later) == ["later"]


def test_others_wrote_to_a_restored_hub_before_it_got_back_what_it_lost(
    machines: Machines, own_server: Server, tmp_path: Path
) -> None:
    """The lost words come after theirs. Every machine has every word once, in the same order."""
    a, b, c = machines(3, server=own_server)
    session = shared_session(a, b, c)
    own_server.stop()
    own_server.copy_to(tmp_path / "backup")
    own_server.start()
    for machine in (a, b, c):
        machine.until_shared()
    c.link.cut()
    c.until_offline()
    a.append(session, "lost 1")
    until(lambda: b.sessions()[session] == 2)
    assert c.append(session, "c1")["provisional"]
    a.link.cut()
    b.link.cut()
    own_server.kill()
    own_server.restore_from(tmp_path / "backup")
    own_server.start()
    c.link.heal()
    c.until_shared()
    assert c.texts(session) == ["first", "c1"]
    a.link.heal()
    b.link.heal()
    until(lambda: a.sessions()[session] == 3, a.log)
    until_same([a, b, c])
    assert b.texts(session) == ["first", "c1", "lost 1"]


def test_a_cut_that_a_restored_hub_lost_removes_nothing_that_was_said_since(
    machines: Machines, own_server: Server, tmp_path: Path
) -> None:
    """Whoever cut never saw it, and nobody else has it in a trash."""
    a, b = machines(2, server=own_server)
    session = shared_session(a, b, texts=("kept", "cut"))
    own_server.stop()
    own_server.copy_to(tmp_path / "backup")
    own_server.start()
    for machine in (a, b):
        machine.until_shared()
    b.link.cut()
    b.until_offline()
    a.call("session/truncate", sessionId=session, afterSeq=1)
    a.link.cut()
    a.until_offline()
    own_server.kill()
    own_server.restore_from(tmp_path / "backup")
    own_server.start()
    b.link.heal()
    b.until_shared()
    assert "provisional" not in b.append(session, "since")
    a.link.heal()
    until_same([a, b])
    assert a.texts(session) == ["kept", "cut", "since"]


def test_an_acknowledged_append_survives_the_death_of_the_hub(machines: Machines, own_server: Server) -> None:
    """kill -9 of every process of the server, in the middle of appends: each acknowledged id is there once."""
    a, b = machines(2, server=own_server)
    session = shared_session(a, b)
    acknowledged = []
    for life in range(3):
        numbers = []
        for index in range(40):
            name = f"l{life}-{index}"
            message = {"role": "user", "content": name, "id": name}
            numbers.append((name, a.client.send("session/append", {"sessionId": session, "messages": [message]})))
        own_server.kill()
        own_server.start()
        acknowledged += [name for name, number in numbers if "result" in a.client.answer(number)]
    until_same([a, b])
    assert len(acknowledged) == 120
    assert a.texts(session) == ["first", *acknowledged]


def test_another_store_of_the_same_name_gets_nothing(machines: Machines, hub_server: Server) -> None:
    """Neither what the machine has of the one store, nor what waited for it; and both are exchanged again with the right one."""
    [a] = machines(1)
    session = shared_session(a)
    a.until_shared()
    a.link.cut()
    a.until_offline()
    assert a.append(session, "waits")["provisional"]
    a.kill()
    a.link.heal()
    other = f"{a.database}_other"
    make_team(hub_server, other)
    rightful = (a.home.path / "config" / "config.toml").read_text()
    a.home.configure(rightful.replace(f'/{a.database}"', f'/{other}"'))
    a.start()
    until(lambda: "another store of this name" in str(a.hub()["problem"]), a.log)
    assert (a.hub()["state"], a.texts(session)) == ("offline", ["first", "waits"])
    assert hub_server.sql("SELECT count(*) FROM sessiond.operations", other) == "0"
    a.kill()
    a.home.configure(rightful)
    a.start()
    a.until_shared()
    assert a.texts(session) == ["first", "waits"]


def test_a_store_that_refuses_offline(machines: Machines) -> None:
    """`offline = "refuse"`: an append is `unavailable`, and nothing of it comes later."""
    a, b = machines(2, 'offline = "refuse"')
    session = shared_session(a, b)
    b.link.cut()
    b.until_offline()
    message = {"role": "user", "content": "no"}
    error = b.client.fails("session/append", sessionId=session, messages=[message])
    assert (error["data"]["kind"], b.texts(session)) == ("unavailable", ["first"])
    b.link.heal()
    b.until_shared()
    assert b.append(session, "yes")["seq"] == 2
    until_same([a, b])
    assert a.texts(session) == ["first", "yes"]


def test_the_hub_cannot_read_an_encrypted_store(machines: Machines, hub_server: Server, tmp_path: Path) -> None:
    """Two machines with the key share as before, offline too; no word is in the server's database."""
    key = tmp_path / "team.key"
    key.write_text(new_key().line + "\n")
    key.chmod(0o600)
    a, b = machines(2, f'key_file = "{key}"', sealed=True)
    session = shared_session(a, b, texts=("unmistakable one",))
    b.link.cut()
    b.until_offline()
    b.append(session, "unmistakable two")
    a.append(session, "unmistakable three")
    b.link.heal()
    until_same([a, b])
    assert a.texts(session) == ["unmistakable one", "unmistakable three", "unmistakable two"]
    b.append(session, "unmistakable four")
    until(lambda: len(a.texts(session)) == 4, a.log)
    until_same([a, b])
    dump = hub_server.dump(a.database)
    assert b"unmistakable " not in dump.replace(b"\\x", b"")
    assert b"unmistakable".hex().encode() not in dump


def _sealed(machines: Machines, folder: Path) -> tuple[Machine, str, Path]:
    """A machine with an encrypted store, a session that is on the hub, and the key file."""
    key = folder / "team.key"
    key.write_text(new_key().line + "\n")
    key.chmod(0o600)
    [machine] = machines(1, f'key_file = "{key}"', sealed=True)
    session = shared_session(machine)
    machine.until_shared()
    return machine, session, key


def test_a_session_under_another_key_keeps_nobody_from_the_others(
    machines: Machines, hub_server: Server, tmp_path: Path
) -> None:
    """A new machine has the others, and its status names the one."""
    a, session, key = _sealed(machines, tmp_path)

    other = new_key()

    async def poison() -> None:
        address = HubAddress("team", url=hub_server.url("bob", a.database))
        hub = SealedHub(PostgresHub(address, "b" * 32, sealed=True), Sealer(lambda: [other], "FILE"), "b" * 32)
        await hub.push(begin("poison", 1, message(2)))
        await hub.close()

    asyncio.run(poison())
    b = Machine(tmp_path / "new", hub_server, a.database, "ada", f'key_file = "{key}"').start()
    try:
        until(lambda: session in b.sessions(), b.log)
        assert b.texts(session) == ["first"]
        assert b.append(session, "second")["seq"] == 2
        until(lambda: "of poison is sealed with the key" in str(b.hub()["problem"]), b.log)
        assert b.hub()["state"] == "online"
        b.kill()
        key.write_text(f"{other.line}\n{key.read_text()}")
        b.start()
        until(lambda: (b.hub()["state"], b.hub()["problem"]) == ("online", None), b.log)
    finally:
        b.close()


def test_a_machine_without_the_newest_key_keeps_what_it_has(
    machines: Machines, hub_server: Server, tmp_path: Path
) -> None:
    """As if the hub were away, for the sessions that it cannot read, also after a new start."""
    a, session, key = _sealed(machines, tmp_path)
    old = tmp_path / "old.key"
    shutil.copy2(key, old)
    b = Machine(tmp_path / "old", hub_server, a.database, "ada", f'key_file = "{old}"').start()
    try:
        until(lambda: session in b.sessions(), b.log)
        assert b.texts(session) == ["first"]
        a.kill()
        key.write_text(f"{key.read_text()}{new_key().line}\n")
        a.start()
        a.until_shared()
        a.append(session, "under the new key")
        assert b.append(session, "one")["provisional"]
        b.kill()
        b.start()
        until(lambda: "is sealed with the key" in str(b.hub()["problem"]), b.log)
        assert b.append(session, "two")["provisional"]
        assert session in b.sessions()
        refused = b.client.fails("session/truncate", sessionId=session, afterSeq=0)["data"]
        assert refused["kind"] == "unavailable"
        shutil.copy2(key, old)
        until_same([a, b])
        assert a.texts(session) == ["first", "under the new key", "one", "two"]
    finally:
        b.close()


def test_without_its_key_only_the_one_store_waits(machines: Machines, tmp_path: Path) -> None:
    """Local sessions work as ever, the status says which file is missing, and nothing needs to be restarted when it is back."""
    a, session, key = _sealed(machines, tmp_path)
    a.kill()
    away = key.rename(tmp_path / "away.key")
    a.start()
    a.call("session/new", sessionId="own")
    assert a.append("own", "here")["seq"] == 1
    until(lambda: f"the key file {key} does not exist" in str(a.hub()["problem"]), a.log)
    assert a.append(session, "waits")["provisional"]
    assert a.texts(session) == ["first", "waits"]
    away.rename(key)
    a.until_shared()
    assert a.texts(session) == ["first", "waits"]


def test_a_member_who_was_revoked_keeps_the_replica(machines: Machines, hub_server: Server) -> None:
    """It reads on and says why nothing is shared; appends wait."""
    a, b = machines(2)
    session = shared_session(a, b)
    asyncio.run(revoke_bob(hub_server, b))
    assert b.append(session, "after")["provisional"]
    b.until_offline()
    problem = b.hub()["problem"]  # from a push, or from a new connection
    assert "is not a member" in problem or "for this role" in problem
    assert b.texts(session) == ["first", "after"]
    a.append(session, "alone")
    assert a.texts(session) == ["first", "alone"]


def test_a_member_who_was_revoked_while_the_link_was_down_is_told_so(machines: Machines, hub_server: Server) -> None:
    """The reason why the hub was lost does not hide the one why it stays lost."""
    a, b = machines(2)
    session = shared_session(a, b)
    b.link.cut()
    b.until_offline()
    asyncio.run(revoke_bob(hub_server, b))
    b.link.heal()
    until(lambda: "for this role" in b.hub()["problem"], lambda: str(b.hub()))
    assert b.texts(session) == ["first"]


async def revoke_bob(server: Server, machine: Machine) -> None:
    async with Owner(HubAddress("team", url=server.url("postgres", machine.database))) as owner:
        await owner.revoke("Bob")


def test_an_erased_session_is_nowhere(machines: Machines, hub_server: Server) -> None:
    """A permanent delete removes it from the hub and from every machine that hears of it."""
    a, b = machines(2)
    session = shared_session(a, b, texts=("unmistakable",))
    for machine in (a, b):
        machine.call("session/save", sessionId=session)
    a.call("session/delete", sessionId=session, permanent=True)
    until(lambda: session not in b.sessions(), b.log)
    until_same([a, b])
    local_id = session.partition("/")[2]
    rows = hub_server.sql(
        "SELECT count(*) FROM sessiond.operations o JOIN sessiond.sessions s ON s.id = o.session"
        f" WHERE s.session = '{local_id}'",
        a.database,
    )
    assert rows == "1"
    for machine in (a, b):
        until(
            lambda machine=machine: files_with(machine, b"unmistakable") == [],
            lambda machine=machine: f"{files_with(machine, b'unmistakable')}",
        )


def test_a_member_who_may_not_erase_is_told_so(machines: Machines) -> None:
    """And keeps the link; whoever may can erase it, and its id is not used again."""
    a, b = machines(2)
    session = shared_session(a, b)
    error = b.client.fails("session/delete", sessionId=session, permanent=True)
    assert "Bob may not erase" in error["message"]
    assert "--may-erase" in error["data"]["hint"] and "trash" in error["data"]["hint"]
    assert b.hub()["state"] == "online"
    assert "provisional" not in b.append(session, "goes on")
    a.call("session/delete", sessionId=session, permanent=True)
    until(lambda: session not in b.sessions(), b.log)
    for machine in (a, b):
        taken = machine.client.fails("session/new", sessionId=session.partition("/")[2], store="team")
        assert (taken["data"]["kind"], "deleted for ever" in taken["data"]["hint"]) == ("alreadyExists", True)


@pytest.mark.parametrize("first", ["who erased it", "who never knew it", "who may not erase"])
def test_what_was_erased_is_erased_on_a_restored_hub(
    machines: Machines, own_server: Server, tmp_path: Path, first: str
) -> None:
    """Whoever comes first to a hub that has the words again."""
    a, b, c = machines(3, server=own_server)  # b may not erase
    session = shared_session(a, b, c, texts=("unmistakable",))
    own_server.stop()
    own_server.copy_to(tmp_path / "backup")
    own_server.start()
    for machine in (a, b, c):
        machine.until_shared()
    c.call("session/save", sessionId=session)
    c.kill()
    c.link.cut()
    c.home.start()
    a.call("session/delete", sessionId=session, permanent=True)
    until(lambda: session not in b.sessions(), b.log)
    for machine in (a, b):
        machine.link.cut()
        machine.until_offline()
    own_server.kill()
    own_server.restore_from(tmp_path / "backup")
    own_server.start()
    earliest = {"who erased it": a, "who never knew it": c, "who may not erase": b}[first]
    for machine in (earliest, a, b, c):
        machine.link.heal()
        machine.until_shared()
    until(lambda: session not in c.sessions(), c.log)
    until_same([a, b, c])
    until(lambda: kinds_of(own_server, a, session) == ["11"], lambda: str(kinds_of(own_server, a, session)))
    for machine in (a, b, c):
        until(lambda machine=machine: files_with(machine, b"unmistakable") == [], machine.log)


def kinds_of(server: Server, machine: Machine, session: str) -> list[str]:
    """The kinds of the operations that the hub has of a session."""
    query = (
        "SELECT o.kind FROM sessiond.operations o JOIN sessiond.sessions s ON s.id = o.session"
        f" WHERE s.session = '{session.partition('/')[2]}' ORDER BY o.number"
    )
    return server.sql(query, machine.database).splitlines()


def files_with(machine: Machine, word: bytes) -> list[Path]:
    """The files of the shared store, of its trash and of the index that have it."""
    folders = [machine.home.path / name for name in ("data/shared", "data/trash", "cache")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if word in path.read_bytes()]
