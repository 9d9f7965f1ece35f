"""Two machines give one id to two sessions while they cannot know of each other: each session stays what it is."""

from __future__ import annotations

import pytest

from sessiond.hub.bodies import pack_json
from sessiond.shared import fold
from sessiond.shared.waiting import Waiting
from tests.shared.conftest import Machines
from tests.shared.machines import STORE, Machine, until, until_same

AT = "2026-01-01T00:00:00.000Z"


def moved_offline(machine: Machine) -> None:
    """A session of the machine's own that waits in the store as `plan`, and gets one more word there."""
    machine.call("session/new", sessionId="plan", name="plan of b")
    machine.append("plan", "b1")
    machine.link.cut()
    machine.until_offline()
    machine.call("session/move", sessionId="plan", store=STORE)
    assert machine.append(f"{STORE}/plan", "b2")["provisional"]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("then", ["it stays", "it is in the trash", "it is erased"])
def test_two_sessions_of_one_id_stay_apart(machines: Machines, then: str, killed: bool) -> None:
    """The one that came later goes on under an id of its own, whatever became of the other one."""
    a, b = machines(2)
    moved_offline(b)
    a.call("session/new", sessionId="plan", store=STORE, name="plan of a")
    a.append(f"{STORE}/plan", "a1")
    if then != "it stays":
        a.call("session/delete", sessionId=f"{STORE}/plan", permanent=then == "it is erased")
    if killed:
        b.kill()
        b.home.start()
    b.link.heal()
    until(lambda: f"{STORE}/plan-2" in a.sessions(), b.log)
    until_same([a, b])
    assert a.texts(f"{STORE}/plan-2") == ["b1", "b2"]
    expected = {f"{STORE}/plan-2": "plan of b"} | ({f"{STORE}/plan": "plan of a"} if then == "it stays" else {})
    for machine in (a, b):
        listed = machine.call("session/list", filter={"store": STORE})["sessions"]
        assert {one["sessionId"]: one["name"] for one in listed} == expected
    if then == "it stays":
        assert b.texts(f"{STORE}/plan") == ["a1"]


def test_whoever_has_it_open_is_told_its_new_id(machines: Machines) -> None:
    a, b = machines(2)
    moved_offline(b)
    watcher = b.connection(1)
    watcher.call("session/open", sessionId=f"{STORE}/plan")
    a.call("session/new", sessionId="plan", store=STORE)
    b.link.heal()
    told = watcher.notification("session/deleted")
    assert (told["sessionId"], told["movedTo"]) == (f"{STORE}/plan", f"{STORE}/plan-2")


@pytest.mark.parametrize(("path", "other"), [("/notes", False), ("/others", True)])
def test_the_same_import_on_two_machines_is_one_session(path: str, other: bool) -> None:
    def begun(replica: str, path: str) -> Waiting:
        source = {"tool": "codex", "path": path, "id": "one", "fingerprint": replica}
        return Waiting("created", None, pack_json({"at": AT, "info": {"metadata": {"source": source}}}), [(replica, 1)])

    theirs = begun("ab" * 16, "/notes").ordered(0, "Bob")
    assert fold.is_other([begun("cd" * 16, path)], [theirs]) is other
