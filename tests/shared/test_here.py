"""What may happen to one machine: a full disk, a damaged ledger, a backup that is put back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.backups.verify import prove
from sessiond.fs import RealFileSystem
from tests.hub.postgres import Server
from tests.shared.conftest import Machines
from tests.shared.machines import STORE, Machine, until, until_same
from tests.shared.test_sharing import shared_session


def problem(machine: Machine) -> dict[str, Any] | None:
    """What `daemon/status` says of the store."""
    [store] = [one for one in machine.call("daemon/status")["stores"] if one["name"] == STORE]
    found: dict[str, Any] | None = store["problem"]
    return found


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 4 MiB in the place of a folder; answers a file that fills what is left of it."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder / "filler"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_a_full_disk_under_a_ledger(machines: Machines) -> None:
    """Appends are refused with `readOnly`, offline and online, and the status says why; reading works. What was acknowledged is
    there when the disk has room again, without a new start, and what the others did meanwhile comes in.
    """
    a, b = machines(2)
    b.kill()
    with small_disk(b.home.path / "data" / "shared") as filler:
        b.home.start()
        session = shared_session(a, b)
        b.link.cut()
        b.until_offline()
        kept = [b.append(session, f"kept {number}") for number in range(3)]
        assert all(one["provisional"] for one in kept)
        fill(filler)
        message = {"role": "user", "content": "x" * 3_000_000 + os.urandom(100_000).hex()}
        error = b.client.fails("session/append", sessionId=session, messages=[message])
        assert (error["data"]["kind"], "full" in error["message"]) == ("readOnly", True)
        found = problem(b)
        assert found is not None and found["kind"] == "readOnly" and "team.ledger" in found["message"]
        b.link.heal()
        a.append(session, "from a")
        filler.unlink()
        until(lambda: problem(b) is None, b.log)
        b.until_shared()
        assert "provisional" not in b.append(session, "again")
        until_same([a, b])
        assert a.texts(session) == ["first", "from a", "kept 0", "kept 1", "kept 2", "again"]
        b.kill()
    b.home.start()  # for the end: its ledger is gone with the disk


def test_a_ledger_that_is_not_one(machines: Machines) -> None:
    """The store is `unavailable` and says why, all else works, and the file stays as it is. Moved away, all comes from the hub."""
    a, b = machines(2)
    session = shared_session(a, b)
    b.kill()
    path = b.home.path / "data" / "shared" / f"{STORE}.ledger"
    for one in path.parent.glob(f"{STORE}.ledger-*"):
        one.unlink()
    path.write_bytes(b"not a database at all\n" * 1000)
    b.home.start()
    found = problem(b)
    assert found is not None and found["kind"] == "unavailable" and str(path) in found["message"]
    message = {"role": "user", "content": "x"}
    for method, params in (
        ("session/append", {"sessionId": session, "messages": [message]}),
        ("session/read", {"sessionId": session}),
        ("session/new", {"store": STORE}),
        ("session/delete", {"sessionId": session}),
    ):
        assert b.client.fails(method, **params)["data"]["kind"] == "unavailable", method
    own = b.call("session/new", messages=[message])["session"]["sessionId"]
    assert b.texts(own) == ["x"]
    path.rename(path.with_suffix(".odd"))
    until(lambda: problem(b) is None, b.log)
    b.until_shared()
    until_same([a, b])
    assert b.texts(session) == ["first"]
    assert path.with_suffix(".odd").read_bytes() == b"not a database at all\n" * 1000


def test_a_backup_holds_what_waits(machines: Machines, hub_server: Server, tmp_path: Path) -> None:
    """What was acknowledged without the hub is in the backup, and comes to the hub from there; and once, though the original
    machine lives on and brings it too.
    """
    a, b = machines(2)
    session = shared_session(a, b)
    b.link.cut()
    b.until_offline()
    assert b.append(session, "waits")["provisional"]
    born = str(b.call("session/new", store=STORE, name="train")["session"]["sessionId"])
    b.append(born, "on the train")
    copy = tmp_path / "copy"
    b.call("daemon/backup", path=str(copy))
    checked = list(prove(RealFileSystem(), str(copy)))
    assert [one for one in checked if one.problem] == []
    assert "ledger of team: 3 changes wait for the hub" in [one.what for one in checked]
    assert b.append(session, "after the backup")["provisional"]
    restored = Machine(tmp_path / "restored", hub_server, b.database, "bob")
    shutil.copytree(copy / "data", restored.home.path / "data")
    restored.start()
    try:
        until_same([a, restored])
        assert (a.texts(session), a.texts(born)) == (["first", "waits"], ["on the train"])
        b.link.heal()
        until_same([a, restored, b])
        assert (a.texts(session), a.texts(born)) == (["first", "waits", "after the backup"], ["on the train"])
    finally:
        restored.close()


def test_a_backup_says_that_it_lacks_a_ledger(machines: Machines, tmp_path: Path) -> None:
    """One that cannot be read is named, with what that means; a ledger in a backup that was changed is found."""
    a, b = machines(2)
    shared_session(a, b)
    b.call("daemon/backup", path=str(tmp_path / "good"))
    ledger = tmp_path / "good" / "data" / "shared" / f"{STORE}.ledger"
    ledger.write_bytes(ledger.read_bytes()[:-4096])
    problems = [one.what for one in prove(RealFileSystem(), str(tmp_path / "good")) if one.problem]
    assert problems == [str(ledger), str(ledger)], "its sum, and its content"
    b.kill()
    path = b.home.path / "data" / "shared" / f"{STORE}.ledger"
    for one in path.parent.glob(f"{STORE}.ledger-*"):
        one.unlink()
    path.write_bytes(b"odd" * 5000)
    b.home.start()
    [warning] = b.call("daemon/backup", path=str(tmp_path / "copy"))["warnings"]
    assert warning["path"] == str(path)
    assert "what waits for the hub is not in this backup" in warning["message"]
