"""The ledger keeps what it has acknowledged, whatever happens to its disk, and says so when it cannot."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from sessiond.errors import ReadOnly, Unavailable
from sessiond.hub.bodies import pack_json
from sessiond.hub.port import Ordered
from sessiond.shared import fold
from sessiond.shared.ledger import Ledger
from sessiond.shared.ledger_file import count_waiting
from sessiond.shared.waiting import Waiting

AT = "2026-01-01T00:00:00.000Z"


def waiting(ledger: Ledger, message_id: str | None, text: str = "") -> Waiting:
    body = pack_json({"at": AT, "messages": [{"role": "user", "content": text, "timestamp": AT}]})
    return Waiting("appended", message_id, body, [ledger.name()])


def ordered(ledger: Ledger, numbers: range, text: str = "") -> list[Ordered]:
    return [waiting(ledger, f"m{number}", text).ordered(number, "Ada") for number in numbers]


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    made = Ledger(str(tmp_path / "team.ledger"))
    await made.open()
    yield made
    await made.close()


async def full(ledger: Ledger, pages: int) -> None:
    """The file may have so many pages more than now: what SQLite says of a full disk."""
    await ledger._call(
        lambda: ledger._db.execute(f"PRAGMA max_page_count = {_pages(ledger) + pages}").fetchone()
    )  # pages are taken when they are written, so the limit is hit as on a disk


def _pages(ledger: Ledger) -> int:
    return int(ledger._db.execute("PRAGMA page_count").fetchone()[0])


async def test_what_the_disk_does_not_take_is_refused_and_nothing_else_is_lost(ledger: Ledger) -> None:
    """`ReadOnly`, and then at once, without a try. What waited before waits; once there is room, all is as before."""
    [first] = await ledger.queue("s", [waiting(ledger, "first")])
    await full(ledger, 1)
    told: list[bool] = []
    ledger.on_problem = lambda: told.append(ledger.problem is not None)
    with pytest.raises(ReadOnly):
        await ledger.queue("s", [waiting(ledger, "large", "x y " * 100_000 + str(list(range(9999))))])
    assert ledger.problem is not None and "full" in ledger.problem.message
    with pytest.raises(ReadOnly):
        ledger.check()
    assert await ledger.waiting("s") == [first]
    await full(ledger, 10_000)
    await ledger.try_again()
    ledger.check()
    assert told == [True, False]
    [second] = await ledger.queue("s", [waiting(ledger, "second")])
    assert await ledger.waiting("s") == [first, second]


async def test_what_the_hub_confirmed_while_the_disk_was_full_is_written_later(ledger: Ledger, tmp_path: Path) -> None:
    """In its order. Until then nobody is given a session of which a part is missing."""
    rows = ordered(ledger, range(6), "".join(map(str, range(9999))))
    ledger.confirm("s", rows[:2])
    ledger.confirm("other", ordered(ledger, range(1)))
    assert len(await ledger.operations("s", -1)) == 2
    await full(ledger, 1)
    ledger.confirm("s", rows[2:4])
    ledger.confirm("s", rows[4:])
    with pytest.raises(Unavailable):
        await ledger.operations("s", -1)
    assert len(await ledger.operations("other", -1)) == 1
    assert ledger.head("s").number == 5
    await full(ledger, 10_000)
    await ledger.try_again()
    assert ledger.problem is None
    assert await ledger.operations("s", -1) == rows
    again = Ledger(ledger.path)
    await again.open()
    assert again.head("s") == ledger.head("s")
    await again.close()


async def test_what_came_from_the_hub_while_nobody_had_the_session_waits_no_longer(ledger: Ledger) -> None:
    """Its answer was lost, and the daemon ended before it could compare: it is known by its name, in a later life too."""
    sent, other = await ledger.queue("s", [waiting(ledger, None), waiting(ledger, None)])
    ledger.confirm("s", [sent.ordered(0, "Ada")])
    again = Ledger(ledger.path)
    await ledger.operations("s", -1)  # all is written
    await again.open()
    [left] = await again.waiting("s")
    assert (left.place, left.names) == (other.place, [*other.names, (again.replica, 2)])
    assert again.waits == {"s": 1}
    await again.close()


async def test_a_lost_message_whose_id_was_used_again(ledger: Ledger) -> None:
    """The same words are there already; other words come back under another id."""
    rows = ordered(ledger, range(3), "old")
    ledger.confirm("s", rows)
    await ledger.cut("s", 0)
    theirs = [
        Ordered(1, "ab" * 16, 1, "appended", "m1", "Bob", None, 0, rows[1].body),
        Ordered(2, "ab" * 16, 2, "appended", "m2", "Bob", None, 0, b"\0{}"),
    ]
    ledger.confirm("s", theirs)
    [back] = await ledger.lost("s")
    assert (back.id, back.replica, back.index, back.body) == (
        f"m2-{ledger.replica[:8]}", ledger.replica, rows[2].index, rows[2].body,
    )  # fmt: skip


async def test_a_lost_cut_removes_nothing_that_its_author_never_saw(ledger: Ledger) -> None:
    """It comes back behind the words of others; what was said again under an id that it had freed keeps its own words."""
    cut = Waiting("truncated", None, pack_json({"at": AT, "after_seq": 0}), [ledger.name()])
    again = pack_json({"at": AT, "messages": [{"id": "m1", "role": "user", "content": "again", "timestamp": AT}]})
    rows = [
        Waiting("created", None, pack_json({"at": AT, "info": {}}), [ledger.name()]).ordered(0, "Ada"),
        waiting(ledger, "m1", "first").ordered(1, "Ada"),
        cut.ordered(2, "Ada"),
        Waiting("appended", "m1~1", again, [ledger.name()]).ordered(3, "Ada"),
    ]
    ledger.confirm("s", rows)
    assert texts(rows) == ["again"]
    await ledger.cut("s", 1)
    body = pack_json({"at": AT, "messages": [{"role": "user", "content": "of Bob", "timestamp": AT}]})
    theirs = Ordered(2, "ab" * 16, 1, "appended", "m2", "Bob", None, 0, body)
    lost = await ledger.lost("s")
    assert [(one.replica, one.index) for one in lost] == [(one.replica, one.index) for one in rows[2:]]
    now = [*rows[:2], theirs, *(msgspec.structs.replace(one, number=3 + place) for place, one in enumerate(lost))]
    assert texts(now) == ["first", "of Bob", "again"]


def texts(rows: list[Ordered]) -> list[object]:
    return [one.content for one in fold.folded("s", rows).messages()]


async def test_a_damaged_ledger_is_left_as_it_is(tmp_path: Path) -> None:
    """It is `unavailable`, and says so; a copy in its place is used without a new start."""
    path = tmp_path / "team.ledger"
    path.write_bytes(b"this is no database, but somebody's words\n" * 500)
    before = path.read_bytes()
    ledger = Ledger(str(path))
    await ledger.open()
    assert ledger.problem is not None and ledger.problem.kind == "unavailable"
    for _ in range(2):
        with pytest.raises(Unavailable):
            await ledger.queue("s", [waiting(ledger, "one")])
        with pytest.raises(Unavailable):
            await ledger.operations("s", -1)
        await ledger.try_again()
    assert path.read_bytes() == before
    path.unlink()
    await ledger.try_again()
    assert ledger.problem is None
    assert await ledger.queue("s", [waiting(ledger, "one")])
    await ledger.close()


async def test_a_copy_has_what_waits(ledger: Ledger, tmp_path: Path) -> None:
    """Made while another transaction is open. Its next life has names of its own, and what waits keeps the former ones."""
    [one] = await ledger.queue("s", [waiting(ledger, "one")])
    ledger.confirm("t", ordered(ledger, range(3)))
    await ledger.operations("t", -1)
    copy = str(tmp_path / "copy")
    with sqlite3.connect(ledger.path) as writing:
        writing.execute("INSERT INTO life VALUES ('x')")
        await ledger.copy_to(copy)
    assert count_waiting(copy) == 1
    again = Ledger(copy)
    await again.open()
    assert again.replica != ledger.replica
    [waits] = await again.waiting("s")
    assert waits.names == [*one.names, (again.replica, 1)]
    assert await again.operations("t", -1) == await ledger.operations("t", -1)
    await again.close()
    Path(copy).write_bytes(Path(copy).read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"cannot be read|damaged"):
        count_waiting(copy)
