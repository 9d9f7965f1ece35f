"""Clients hear of a hub that is lost or back, and of how much waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessiond.limits import HUB_NEWS_S
from sessiond.shared.news import HubNews, KnownHub
from sessiond.store.port import HubStatus
from tests.home import Client
from tests.shared.conftest import Machines
from tests.shared.machines import STORE, Machine
from tests.shared.test_sharing import shared_session


class Later:
    """Calls what was left with it when the test says that the time has come."""

    def __init__(self) -> None:
        self.left: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Later._Timer:
        self.left.append((seconds, call))
        return self._Timer(self, call)

    class _Timer:
        def __init__(self, later: Later, call: Callable[[], None]) -> None:
            self._later, self._call = later, call

        def cancel(self) -> None:
            self._later.left = [one for one in self._later.left if one[1] is not self._call]

    def pass_by(self) -> None:
        """The time of the only one has come."""
        [(seconds, call)] = self.left
        assert seconds == HUB_NEWS_S
        self.left = []
        call()


class Hub:
    """What is known of a hub, and what was told of it."""

    def __init__(self) -> None:
        self.now: dict[str, Any] = {"state": "offline", "since": "t0", "pending": 0, "lag": 0, "problem": "not yet"}
        self.told: list[HubStatus] = []
        self.later = Later()
        self.asked = 0
        """How often the whole status was made."""
        self.news = HubNews(self._known, self._status, self.told.append, self.later)

    def _known(self) -> KnownHub:
        return KnownHub(**{name: value for name, value in self.now.items() if name != "lag"})

    def _status(self) -> HubStatus:
        self.asked += 1
        return HubStatus(**self.now)

    def becomes(self, **more: Any) -> list[tuple[str, int]]:
        """What is told of it at once: state and how many wait."""
        before = len(self.told)
        self.now |= more
        self.news.touched()
        return [(one.state, one.pending) for one in self.told[before:]]

    def rests(self) -> list[tuple[str, int]]:
        """What is told when the pause is over."""
        before = len(self.told)
        self.later.pass_by()
        return [(one.state, one.pending) for one in self.told[before:]]


def test_a_change_of_state_is_told_at_once_and_counts_now_and_then() -> None:
    """The first count at once, those after it when the pause is over: only the last of them."""
    hub = Hub()
    assert hub.becomes(state="online", since="t1", problem=None) == [("online", 0)]
    assert hub.becomes(state="offline", since="t2", problem="cut") == [("offline", 0)]
    assert [hub.becomes(pending=count) for count in (1, 2, 3)] == [[], [], []]
    assert hub.rests() == [("offline", 3)]
    assert hub.becomes(pending=4) == []
    assert hub.becomes(state="online", since="t3", problem=None) == [("online", 4)]
    assert [hub.becomes(pending=count) for count in (3, 0)] == [[], []]
    assert hub.rests() == [("online", 0)]
    assert hub.rests() == []
    assert hub.becomes(pending=1) == [("online", 1)]
    assert hub.asked == len(hub.told)  # the lag takes as long as there are sessions that lack something


def test_what_is_as_it_was_is_not_told() -> None:
    """Not when it is touched, not after a pause in which it changed and changed back, and not for the lag alone."""
    hub = Hub()
    assert hub.becomes() == []
    assert hub.becomes(lag=3) == []
    assert hub.becomes(problem="refused") == [("offline", 0)]
    assert hub.becomes(pending=1) == []
    assert hub.becomes(pending=0) == []
    assert hub.rests() == []
    assert hub.later.left == []
    hub.becomes(pending=1)
    hub.news.stop()
    assert hub.later.left == []


def initialized(machine: Machine) -> Client:
    client = machine.home.client()
    client.call("initialize", processId=None, rootUri=None, capabilities={})
    return client


def until_told(client: Client, state: str, pending: int) -> list[dict[str, Any]]:
    """All that a client is told until it is told this."""
    told = []
    while not told or (told[-1]["state"], told[-1]["pending"]) != (state, pending):
        params = client.notification("store/hubChanged")
        assert params["store"] == STORE
        told.append(params["hub"])
    return told


@pytest.fixture
def cut(machines: Machines) -> tuple[Machine, str, Client]:
    """A machine with a session, whose link was cut after a client came: the client knows."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.until_shared()
    client = initialized(machine)
    machine.link.cut()
    [lost] = until_told(client, "offline", 0)[-1:]
    assert lost["problem"] and lost["since"] == machine.hub()["since"]
    return machine, session, client


def test_clients_are_told_that_the_hub_is_lost_what_waits_and_that_it_is_back(cut: tuple[Machine, str, Client]) -> None:
    """Every client that is initialized, also one that has no session open; no other. As often as there is something new."""
    machine, session, client = cut
    other = machine.home.client()
    for number in range(30):
        machine.append(session, f"w{number}")
    told = until_told(client, "offline", 30)
    pending = [one["pending"] for one in told]
    assert pending == sorted(set(pending)), pending
    machine.link.heal()
    told = until_told(client, "online", 0)
    assert [one["state"] for one in told] == sorted(one["state"] for one in told), told
    for uninitialized in (other, machine.client):
        uninitialized.call("daemon/hello")
        assert "store/hubChanged" not in dict(uninitialized.heard_by_now())


def test_the_status_that_a_client_asks_for_fits_what_it_is_told_before_and_after(
    cut: tuple[Machine, str, Client],
) -> None:
    """What is told after the response is newer than the response, so a client may take everything in the order in which it
    comes.
    """
    machine, session, client = cut
    known = []
    for number in range(50):
        asked = client.send("daemon/status")
        machine.append(session, f"w{number}")
        [store] = [one for one in client.answer(asked)["result"]["stores"] if one["name"] == STORE]
        told, client.notifications = client.notifications, []  # what came before the response
        known += [params["hub"]["pending"] for name, params in told if name == "store/hubChanged"]
        known.append(store["hub"]["pending"])
    assert known == sorted(known)
    assert machine.hub()["pending"] == 50
