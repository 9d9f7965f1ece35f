"""The trash keeps an entry for 30 counted days after its deletion; nothing else expires."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from sessiond.daemon.expiry import Expiry
from sessiond.limits import DEFAULT
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from sessiond.store.trash import Trash
from tests.fakes.clock import ManualClock
from tests.fakes.crashfs import CrashFS
from tests.home import Home

DAY_MS = 24 * 3600 * 1000


def put(trash: Trash, name: str, clock: ManualClock) -> None:
    """An entry of a session that last changed in 2020."""
    session = Session(name, "2020-01-01T00:00:00.000Z")
    trash.put(name, session, {}, at=timestamp(clock.now_ms()), reason="deleted")


def left(trash: Trash) -> list[str]:
    return [entry.trash_id for entry in trash.list()]


class House:
    """One trash, and a daemon that looks after it as long as it runs."""

    def __init__(self, days: float = DEFAULT.trash_days) -> None:
        self.clock = ManualClock()
        self.fs = CrashFS()
        self.trash = Trash(self.fs, "/trash")
        self.expiry = Expiry(
            lambda: {"default": self.trash}, self.clock, msgspec.structs.replace(DEFAULT, trash_days=days)
        )

    def leap(self, days: float) -> None:
        self.clock.set_wall(self.clock.now_ms() + int(days * DAY_MS))

    async def live(self, days: float) -> None:
        """It looks every twelve hours: a test need not have it look every hour."""
        await self.expiry.round()
        for _ in range(int(days * 2)):
            self.leap(0.5)
            await self.expiry.round()


async def test_only_what_lay_there_for_thirty_days_goes() -> None:
    """It counts since when it was deleted, not since when it was written."""
    house = House()
    put(house.trash, "old", house.clock)
    await house.live(15)
    put(house.trash, "fresh", house.clock)
    await house.live(14.5)
    assert left(house.trash) == ["fresh", "old"]
    await house.live(0.5)
    assert left(house.trash) == ["fresh"]
    await house.live(14.5)
    assert left(house.trash) == ["fresh"]
    await house.live(0.5)
    assert left(house.trash) == []


@pytest.mark.parametrize("days", [40, 3650, -40])
async def test_12_a_clock_that_leaps_expires_nothing(days: float) -> None:
    """However far, back again, before a look or after it; and what is deleted while it is wrong is there as long as any."""
    house = House()
    put(house.trash, "before", house.clock)
    await house.live(1)
    house.leap(days)
    put(house.trash, "meanwhile", house.clock)
    await house.live(1)
    house.leap(-days)
    put(house.trash, "after", house.clock)
    await house.live(26.5)
    assert left(house.trash) == ["after", "before", "meanwhile"]
    await house.live(4)
    assert left(house.trash) == []


@pytest.mark.parametrize("seed", range(6))
async def test_12_no_entry_goes_before_its_time(seed: int) -> None:
    """Random lives: daemons that run and do not, a clock that leaps and is repaired, a count that is lost. By true time."""
    rng = random.Random(seed)
    house = House(days=5)
    true_ms, leaps = 0, 0
    born: dict[str, tuple[int, int]] = {}
    for number in range(120):
        match rng.choice(("pass", "pass", "pass", "pass", "off", "leap", "lose", "put")):
            case "pass":
                step = rng.choice((0.04, 0.5, 0.9))
                house.leap(step)
                true_ms += int(step * DAY_MS)
            case "off":
                house.leap(7)
                true_ms += 7 * DAY_MS
            case "leap" if rng.random() < 0.5:
                house.leap(rng.choice((-400, 400, 4000)))
                leaps += 1
            case "lose" if house.fs.stat("/trash/.age.json"):
                house.fs.poke("/trash/.age.json", b"damage")
            case "put":
                put(house.trash, f"s{number}", house.clock)
                born[f"s{number}"] = (true_ms, leaps)
        there = set(left(house.trash))
        await house.expiry.round()
        for name in there - set(left(house.trash)):
            then, earlier = born[name]
            assert true_ms - then >= (5 - (leaps - earlier)) * DAY_MS - 10, name  # a leap may count for a day


async def test_what_an_older_version_put_there_lies_thirty_days_from_now_on() -> None:
    """Earlier time was not counted."""
    house = House()
    put(house.trash, "old", house.clock)
    wire = msgspec.json.decode(house.fs.read("/trash/old/meta.json"))
    del wire["lived_ms"]
    house.fs.poke("/trash/old/meta.json", msgspec.json.encode(wire))
    house.leap(300)
    await house.live(29.5)
    assert left(house.trash) == ["old"]
    await house.live(1)
    assert left(house.trash) == []


async def test_what_an_older_version_puts_into_a_trash_that_counts_lies_thirty_days() -> None:
    """Somebody went back to a version that does not count: its entries are young though the trash has counted for long."""
    house = House()
    put(house.trash, "counted", house.clock)
    await house.live(29.5)
    put(house.trash, "not counted", house.clock)
    wire = msgspec.json.decode(house.fs.read("/trash/not counted/meta.json"))
    del wire["lived_ms"]
    house.fs.poke("/trash/not counted/meta.json", msgspec.json.encode(wire))
    await house.live(29.5)
    assert left(house.trash) == ["not counted"]
    await house.live(0.5)
    assert left(house.trash) == []


async def test_a_trash_that_fails_keeps_no_other_from_being_cleared() -> None:
    """Whatever goes wrong in one store's trash is logged, and the others' turn comes."""

    class Failing(Trash):
        def expire(self, now_ms: int, after_ms: int) -> Sequence[str]:
            raise ValueError("a fault of ours")

    house = House()
    put(house.trash, "old", house.clock)
    failing = Failing(house.trash.fs, "/a")
    house.expiry = Expiry(lambda: {"a": failing, "b": house.trash}, house.clock, DEFAULT)
    await house.live(30)
    assert left(house.trash) == []


async def test_zero_days_keep_for_ever() -> None:
    house = House(days=0)
    put(house.trash, "old", house.clock)
    house.leap(300)
    house.expiry.start()
    await house.expiry.stop()
    assert left(house.trash) == ["old"]


def test_a_daemon_expires_its_trash_and_nothing_else(tmp_path: Path) -> None:
    """At its start already; sessions, however old, stay."""
    with Home(tmp_path) as home:
        client = home.client()
        then = {"role": "user", "content": "x", "timestamp": "2001-01-01T00:00:00.000Z"}
        for name in ("kept", "gone", "recent"):
            client.call("session/new", sessionId=name, messages=[then])
        client.call("session/delete", sessionId="gone")
        client.call("session/delete", sessionId="recent")
        home.stop()
        meta = tmp_path / "data" / "trash" / "default" / "gone" / "meta.json"
        wire = msgspec.json.decode(meta.read_bytes())
        wire["lived_ms"] -= 31 * DAY_MS
        meta.write_bytes(msgspec.json.encode(wire))
        home.start()
        client = home.client()
        while os.path.exists(meta):
            client.call("daemon/hello")
        deleted = client.call("session/list", filter={"deleted": True})["sessions"]
        assert [info["sessionId"] for info in deleted] == ["recent"]
        assert [info["sessionId"] for info in client.call("session/list")["sessions"]] == ["kept"]


async def test_an_entry_that_cannot_be_removed_costs_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others go when their time is over. It is told, and tried again in the next round."""
    house = House()
    for name in "abc":
        put(house.trash, name, house.clock)
    real = Trash.remove

    def remove(self: Trash, trash_id: str) -> None:
        if trash_id == "b":
            raise OSError(5, "Input/output error")
        real(self, trash_id)

    monkeypatch.setattr(Trash, "remove", remove)
    await house.live(30.5)
    assert left(house.trash) == ["b"]
    assert "/trash/b could not be removed from the trash" in caplog.text
    monkeypatch.setattr(Trash, "remove", real)
    await house.live(0.5)
    assert left(house.trash) == []
