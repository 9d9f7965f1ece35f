"""A machine that joins a store with many sessions: it lists them at once, and fetches them as they are opened, or all of them in the
background (`mirror = true`).
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
from collections.abc import Iterator

import pytest

from sessiond.hub.bodies import operation
from sessiond.hub.port import NOTHING, Push, seed
from sessiond.model.changes import Appended, Change, Created
from sessiond.model.session import Session
from sessiond.shared.listing import listed, listing_after
from tests.hub.postgres import Server
from tests.hub.stores import Team
from tests.shared.conftest import Machines
from tests.shared.machines import Machine, until, until_same

AT = "2026-01-01T00:00:00.000Z"
SESSIONS = 600
"""More than a page of the hub's list."""
MIRROR = "mirror = true"
_WAIT = """
CREATE OR REPLACE FUNCTION public.wait_for_17() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(17); RETURN true; END $$;
ALTER POLICY mine ON sessiond.operations USING (store = ANY ((SELECT sessiond.my_stores())::int[]) AND public.wait_for_17());
"""


# The operations of other sessions must not be looked at on the way, however the server would like to plan that: as soon as it has
# counted the rows, it reads all of so small a table.
_BROKEN = """
DO $$ DECLARE kind text; BEGIN
    FOREACH kind IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin'] LOOP
        EXECUTE format('ALTER DATABASE %I SET enable_%s = off', current_database(), kind);
    END LOOP;
END $$;
ALTER POLICY mine ON sessiond.operations USING (store = ANY ((SELECT sessiond.my_stores())::int[])
    AND (session <> ALL (ARRAY(SELECT id FROM sessiond.sessions WHERE session > 's00037')) OR number / (number - number) = 0));
ANALYZE sessiond.operations
"""
_MENDED = "ALTER POLICY mine ON sessiond.operations USING (store = ANY ((SELECT sessiond.my_stores())::int[]))"


def said(number: int) -> list[Change]:
    """What makes session `number`."""
    wire = {"id": "m1", "seq": 1, "role": "user", "content": f"unmistakable{number}", "timestamp": AT}
    created = Created(seq=0, at=AT, info={"createdAt": AT, "updatedAt": AT, "name": f"session {number}", "tags": ["t"]})
    return [created, Appended(seq=1, at=AT, messages=[wire])]


async def fill(server: Server, database: str, count: int) -> None:
    """Sessions of another machine, on the hub."""
    team = Team(server, database)
    hub = team.hub("ada")
    for number in range(count):
        name, changes = f"s{number:05}", said(number)
        operations = [operation(2 * number + place, change) for place, change in enumerate(changes, 1)]
        listing = listing_after(Session(name, AT), changes)
        pushed = await hub.push(Push(name, NOTHING, seed(name), operations, listing))
        assert pushed.outcome == "stored"
    await team.close()


@contextlib.contextmanager
def unreadable(server: Server, database: str) -> Iterator[None]:
    """Nobody can read an operation meanwhile: whoever tries waits."""
    server.sql(_WAIT, database)
    command = [str(server.bin / "psql"), "-X", "-q", server.url(database=database, tcp=True)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write("DO $$ BEGIN PERFORM pg_advisory_lock(17); END $$; \\echo locked\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.stdin.close()


def whole(machine: Machine, count: int) -> bool:
    """Whether all sessions are in the replica's files, and nothing is said to be missing."""
    replica = machine.home.path / "data" / "shared" / "team"
    return machine.hub()["lag"] == 0 and len(list(replica.glob("s*.jsonl"))) == count


def listed_names(machine: Machine) -> set[str]:
    found, cursor = set(), None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = machine.call("session/list", filter={"store": "team"}, limit=500, **more)
        found |= {one["name"] for one in page["sessions"]}
        cursor = page["nextCursor"]
        if cursor is None:
            return found


def test_a_new_machine_lists_everything_before_it_has_any_of_it(machines: Machines, hub_server: Server) -> None:
    """With no operation read: names, tags, counts and times of all sessions. Then each can be opened, the one that is asked for
    before its turn, and in the end all are found by a search, and are the same as on another machine.
    """
    [b] = machines(1, MIRROR)
    b.kill()
    asyncio.run(fill(hub_server, b.database, SESSIONS))
    wanted = {f"session {number}" for number in range(SESSIONS)}
    with unreadable(hub_server, b.database):
        b.home.start()
        until(lambda: listed_names(b) == wanted, b.log)
        page = b.call("session/list", filter={"store": "team", "name": "session 599"})["sessions"]
        assert [(one["sessionId"], one["messageCount"], one["seq"], one["tags"], one["updatedAt"]) for one in page] == [
            ("team/s00599", 1, 1, ["t"], AT)
        ]
        assert b.call("session/search", query="unmistakable7")["incomplete"]
    assert b.texts("team/s00000") == ["unmistakable0"]
    assert b.append("team/s00001", "more")["seq"] == 2
    until(lambda: "incomplete" not in b.call("session/search", query="unmistakable7"), b.log)
    assert b.call("session/search", query="unmistakable0")["total"] == 1
    assert listed_names(b) == wanted


def test_a_mirror_has_every_word_whatever_happens_meanwhile(machines: Machines, hub_server: Server) -> None:
    """The link is cut in the middle, and the daemon is killed in the middle: it goes on where it was. Then every session is a file
    that other programs can search, and `lag` has come down to nothing.
    """
    [b] = machines(1, MIRROR)
    b.kill()
    asyncio.run(fill(hub_server, b.database, SESSIONS))
    with unreadable(hub_server, b.database):  # all are listed before the first is fetched
        b.home.start()
        until(lambda: len(listed_names(b)) == SESSIONS, b.log)
    until(lambda: 0 < b.hub()["lag"] < 2 * SESSIONS, b.log)
    b.link.cut()
    b.until_offline()
    before = b.hub()["lag"]
    assert b.append("team/s00599", "while it is cut")["provisional"]
    b.link.heal()
    until(lambda: b.hub()["lag"] < before, b.log)
    b.kill()
    left = SESSIONS - len(fetched(b))
    with unreadable(hub_server, b.database):
        b.home.start()
        until(lambda: b.hub()["state"] == "online", b.log)
        assert b.hub()["lag"] == 2 * left
    until(lambda: whole(b, SESSIONS), b.log)
    replica = b.home.path / "data" / "shared" / "team"
    for number in range(SESSIONS):
        assert f'"unmistakable{number}"' in (replica / f"s{number:05}.jsonl").read_text()
    assert b.call("session/search", query="unmistakable17")["total"] == 1
    assert b.texts("team/s00599") == ["unmistakable599", "while it is cut"]


def fetched(machine: Machine) -> set[str]:
    """The sessions whose operations are in the ledger of a machine."""
    with contextlib.closing(sqlite3.connect(machine.home.path / "data" / "shared" / "team.ledger")) as ledger:
        return {session for (session,) in ledger.execute("SELECT session FROM head")}


def test_without_a_mirror_only_what_is_opened_is_fetched(machines: Machines, hub_server: Server) -> None:
    """A search says how many sessions it could not look into, and nothing waits for them; what others say from then on comes."""
    a, b = machines(2)
    b.kill()
    asyncio.run(fill(hub_server, b.database, 40))
    b.home.start()
    until(lambda: len(listed_names(b)) == 40, b.log)
    found = b.call("session/search", query="unmistakable7")
    assert (found["total"], found["unfetched"], found.get("incomplete")) == (0, 40, None)
    assert b.call("session/search", query="x", filter={"store": "default"}).get("unfetched") is None
    assert b.hub()["lag"] == 0
    assert b.texts("team/s00007") == ["unmistakable7"]
    a.append("team/s00008", "from now on")
    until(lambda: b.call("session/search", query="unmistakable8")["total"] == 1, b.log)
    found = b.call("session/search", query="unmistakable7")
    assert (found["total"], found["unfetched"]) == (1, 38)
    assert fetched(b) == {"s00007", "s00008"}


def test_sessions_that_cannot_be_fetched_do_not_stop_a_mirror(machines: Machines, hub_server: Server) -> None:
    """They stay listed and are tried again; all others come, also those that are behind them."""
    [b] = machines(1, MIRROR)
    b.kill()
    asyncio.run(fill(hub_server, b.database, 40))
    hub_server.sql(_BROKEN, b.database)
    b.home.start()
    until(lambda: len(fetched(b)) == 38, b.log)
    assert b.hub()["lag"] == 4
    assert len(listed_names(b)) == 40
    hub_server.sql(_MENDED, b.database)
    b.kill()
    b.home.start()
    until(lambda: whole(b, 40), b.log)


def test_what_is_only_listed_stays_listed_without_a_hub(machines: Machines, hub_server: Server) -> None:
    """After a restart too, and with an index that was lost; to open it is `unavailable` until the hub is back."""
    a, b = machines(2, MIRROR)
    b.kill()
    asyncio.run(fill(hub_server, b.database, 40))
    wanted = {f"session {number}" for number in range(40)}
    with unreadable(hub_server, b.database):
        b.home.start()
        until(lambda: listed_names(b) == wanted, b.log)
        b.link.cut()
        b.until_offline()
        b.kill()
        for file in (b.home.path / "cache").rglob("index.sqlite3*"):
            file.unlink()
    b.home.start()
    until(lambda: listed_names(b) == wanted, b.log)
    error = b.client.fails("session/open", sessionId="team/s00003")
    assert error["data"]["kind"] == "unavailable"
    assert listed_names(b) == wanted
    b.link.heal()
    b.until_shared()
    assert b.texts("team/s00003") == ["unmistakable3"]
    b.call("session/delete", sessionId="team/s00004")
    until(lambda: "incomplete" not in b.call("session/search", query="unmistakable9"), b.log)
    until(lambda: "team/s00004" not in a.sessions(), a.log)
    until_same([a, b])


@pytest.mark.parametrize("kind", ["update", "clear", "truncate", "rest"])
def test_a_listing_says_what_lists_show(machines: Machines, hub_server: Server, kind: str) -> None:
    """After each kind of change, offline ones too, the hub's listing is what the machine itself shows."""
    [a] = machines(1)
    a.until_shared()
    session = a.call("session/new", store="team", name="one", tags=["x"], cwd="/work")["session"]["sessionId"]
    for text in "abc":
        a.append(session, text)
    match kind:
        case "update":
            a.call("session/update", sessionId=session, name="two", summary="s", metadata={"k": 1}, archived=True)
        case "clear":
            a.call("session/clear", sessionId=session)
        case "truncate":
            a.call("session/truncate", sessionId=session, afterSeq=1)
        case "rest":
            a.call("note/append", sessionId=session, heading="h", content="c")
            a.link.cut()
            a.until_offline()
            a.append(session, "offline")
            a.link.heal()
            a.until_shared()
    shown = a.call("session/open", sessionId=session)["session"]
    local = session.removeprefix("team/")
    query = "SELECT head, encode(listing, 'hex') FROM sessiond.sessions WHERE session = '%s'" % local
    head, _, listing = hub_server.sql(query, a.database).partition("|")
    info = listed(local, int(head), bytes.fromhex(listing))
    assert info is not None
    assert (info.name, info.message_count, info.seq, info.tags) == (
        shown["name"], shown["messageCount"], shown["seq"], shown["tags"],
    )  # fmt: skip
    assert (info.created_at, info.cwd, info.archived, info.summary) == (
        shown["createdAt"], shown["cwd"], shown["archived"], shown["summary"],
    )  # fmt: skip
    assert (info.metadata, info.updated_at) == (shown["metadata"], shown["updatedAt"])
