"""The ledger of imported sources as an older or a newer sessiond has left it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.errors import Unavailable
from sessiond.importers.record import digest_of_version_1
from sessiond.service.source_ledger import SourceLedger
from sessiond.service.source_merge import SourceDigest
from tests.service.test_intake import S, Served, record, transcript, wire_id
from tests.service.test_removals import followed

_VERSION_1 = """
    CREATE TABLE session (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, digests BLOB NOT NULL,
        PRIMARY KEY (store, id, path)
    ) WITHOUT ROWID;
    CREATE INDEX session_path ON session (store, path);
    CREATE TABLE file (
        store TEXT NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL, mark TEXT NOT NULL,
        PRIMARY KEY (store, path)
    ) WITHOUT ROWID;
    PRAGMA user_version = 1;
"""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = await Served(tmp_path / "home", str(tmp_path / "imports.db")).start()
    yield made
    await made.close()


def make_older(path: Path, *sources: Path, arrived: bool = True) -> None:
    """Version 1 of the ledger, in which each source has the messages 1 to 3."""
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(_VERSION_1)
        said = {digest_of_version_1(f"u{number}"): b"12345678" for number in range(1, 4)}
        row = msgspec.msgpack.encode(SourceDigest(said, arrived=arrived))
        db.executemany(
            "INSERT INTO session VALUES (?, ?, ?, ?)", [("default", wire_id(one), str(one), row) for one in sources]
        )
        db.executemany(
            "INSERT INTO file VALUES (?, ?, ?, ?)", [("default", str(one), "claude-code", "1-1") for one in sources]
        )


async def upgraded(served: Served, tmp_path: Path, **older: bool) -> tuple[Path, Path, Path]:
    """Three sources that an older version followed: the first one's session was erased there, the second one's cut after its
    first message, the third is whole.
    """
    erased, cut, whole = (transcript(tmp_path / name, range(1, 4), S + name) for name in "123")
    for one in (erased, cut, whole):
        await followed(served, one)
    await served.service.delete(wire_id(erased), permanent=True)
    await served.service.truncate(None, wire_id(cut), 1)
    await served.close()
    make_older(tmp_path / "imports.db", erased, cut, whole, **older)
    await served.start()
    return erased, cut, whole


async def here(served: Served) -> dict[str, Any]:
    service: Any = served.service
    listed = (await service.list())["sessions"]
    return {one["sessionId"][-1]: await served.texts(one["sessionId"]) for one in listed}


async def test_what_was_removed_before_an_update_stays_removed(served: Served, tmp_path: Path) -> None:
    sources = await upgraded(served, tmp_path)
    three = ["text 1", "text 2", "text 3"]
    for one in sources:
        await followed(served, one)
    assert await here(served) == {"2": ["text 1"], "3": three}
    await served.restart()
    for one in sources:
        with one.open("a") as file:
            file.write(record(4, one.stem))
        await followed(served, one)
    assert await here(served) == {"2": ["text 1", "text 4"], "3": [*three, "text 4"]}


async def test_a_crash_in_the_first_follow_after_an_update(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the session was about to be given is noted, and nothing more."""
    _, cut, _ = await upgraded(served, tmp_path)
    with cut.open("a") as file:
        file.write(record(4, cut.stem))

    async def crash(*_: object) -> None:
        raise Unavailable("the power is out")

    with monkeypatch.context() as patch:
        patch.setattr("sessiond.service.imported_session.ImportedSession.remember", crash)
        with contextlib.suppress(Unavailable):
            await followed(served, cut)
    await served.restart()
    with cut.open("a") as file:
        file.write(record(5, cut.stem))
    await followed(served, cut)
    assert (await here(served))["2"] == ["text 1", "text 4", "text 5"]


async def test_who_asks_gets_back_what_was_removed_before_an_update(served: Served, tmp_path: Path) -> None:
    erased, cut, _ = await upgraded(served, tmp_path)
    for one in (erased, cut):
        await served.bring(one)
    assert {key: len(texts) for key, texts in (await here(served)).items()} == {"1": 3, "2": 3, "3": 3}
    await followed(served, cut)
    assert len((await here(served))["2"]) == 3


async def test_what_never_arrived_before_an_update_comes(served: Served, tmp_path: Path) -> None:
    """It was announced, and the older version ended before it was stored."""
    erased, _, _ = await upgraded(served, tmp_path, arrived=False)
    await followed(served, erased)
    assert len((await here(served))["1"]) == 3


async def test_a_move_takes_along_what_came_with_an_older_ledger(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    make_older(tmp_path / "imports.db", source)
    ledger = SourceLedger(str(tmp_path / "imports.db"))
    before = await ledger.recall("default", wire_id(source))
    await ledger.move("default", wire_id(source), "other")
    assert before.inherited is not None
    assert (await ledger.recall("other", wire_id(source))).inherited == before.inherited
    await ledger.close()


async def test_the_ledger_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "imports.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript("CREATE TABLE new (a); INSERT INTO new VALUES (1); PRAGMA user_version = 3;")
    content = path.read_bytes()
    ledger = SourceLedger(str(path))
    with pytest.raises(Unavailable, match="newer version"):
        await ledger.recall("default", "s")
    await ledger.close()
    assert path.read_bytes() == content


async def test_what_came_with_an_older_ledger_is_forgotten_when_it_came_back(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    make_older(tmp_path / "imports.db", source)
    ledger = SourceLedger(str(tmp_path / "imports.db"))
    assert await ledger.cut("default") == {wire_id(source)}
    await ledger.came_back("default", wire_id(source))
    assert (await ledger.recall("default", wire_id(source))).inherited is None
    await ledger.close()
