"""Whoever follows a session whose provisional changes got other seqs is told everything: real daemons and a real hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.client import Appended, Changes, Reread, connect
from tests.hub.postgres import Server
from tests.shared.machines import Machine, make_team, until, until_same


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("wheel").start()
    yield made
    made.close()


@pytest.mark.timeout(120)
def test_words_of_others_that_come_before_provisional_ones(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One machine was offline: what it said is behind what the other one said meanwhile, under another seq."""
    make_team(server, "moved")
    machines = [
        Machine(tmp_path / f"m{number}", server, "moved", "ada", "[limits]\nhub_patience_s = 0.5\n").start()
        for number in range(2)
    ]
    one, other = machines
    try:
        one.call("session/new", sessionId="k", store="team")
        for number in range(2):
            one.append("team/k", f"w{number}")
        until(lambda: other.sessions().get("team/k") == 2)
        other.texts("team/k")
        monkeypatch.setenv("SESSIOND_HOME", str(other.home.path))
        with connect() as client, client.session("team/k").changes(since=0) as changes:
            told: list[str] = []
            other.link.cut()
            other.until_offline()
            other.append("team/k", "provisional")
            one.append("team/k", "before it")
            while "provisional" not in told:
                take(told, changes)
            other.link.heal()
            other.until_shared()
            until_same(machines)
            while told[-1:] != ["provisional"] or "before it" not in told:
                take(told, changes)
            assert told == ["w0", "w1", "before it", "provisional"]
    finally:
        for machine in machines:
            machine.close()


def take(told: list[str], changes: Changes) -> None:
    """Keep what a program shows that follows the session."""
    change = changes.wait(20.0)
    assert change is not None, told
    if isinstance(change, Reread):
        del told[change.since :]
    if isinstance(change, (Reread, Appended)):
        told += [message.content for message in change.messages]
