"""`erased`: the index's files contain no word of what was removed, whatever came before."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import string
import threading
from pathlib import Path

import pytest

from sessiond.index import erase as erase_module
from sessiond.index import schema
from sessiond.index.chunks import decompress
from sessiond.index.index import Index
from sessiond.index.values import ListQuery, SearchQuery
from sessiond.limits import Limits
from sessiond.model.message import Message
from tests.index.feeding import info, opened

NOW = "2026-01-11T14:30:22.000Z"


@pytest.fixture(autouse=True)
def as_built_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems build SQLite so that it overwrites what is deleted, most do not."""
    connect = schema.connect

    def plain(path: str, *, reading: bool) -> sqlite3.Connection:
        db = connect(path, reading=reading)
        db.execute("PRAGMA secure_delete = OFF")
        return db

    monkeypatch.setattr(schema, "connect", plain)


@pytest.mark.parametrize("seed", range(3))
async def test_11_no_word_of_what_was_removed_is_left(tmp_path: Path, seed: int) -> None:
    """Of sessions that were fed, changed and cut at random beside others, whose words are found as before."""
    rng = random.Random(seed)
    index = Index(str(tmp_path / "index.db"), Limits())
    await index.open()
    words: dict[str, list[str]] = {f"s{number}": [] for number in range(6)}

    def said(session: str) -> str:
        some = ["".join(rng.choices(string.ascii_lowercase, k=14)) for _ in range(rng.choice((2, 40, 400)))]
        words[session] += some
        return " ".join(some)

    for _ in range(60):
        session = rng.choice(sorted(words))
        seq = rng.randrange(1, 30)
        match rng.choice(("add", "add", "add", "name", "cut", "settle")):
            case "add":
                message = Message(id=f"m{seq}", seq=seq, role=said(session)[:14], content=said(session), timestamp=NOW)
                index.add_messages(session, [message])
            case "name":
                index.put_info(info(session, name=said(session)[:60]))
            case "cut":
                index.drop_after(session, seq)
            case "settle":
                await index.settled()
    kept = said("s0").split()[0]
    index.put_info(info("s0"))
    index.add_messages("s0", [Message(id="last", seq=99, role="user", content=kept, timestamp=NOW)])
    many = [f"x{number}" for number in range(200)]  # so many that whole pages become free
    for session in many:
        words[session] = []
        index.put_info(info(session, name=said(session)[:60]))
    await index.settled()
    for session in many:
        words[session] = words[session][:3]
    gone = [word for session in ("s1", "s3", *many) for word in words[session]]
    for session in ("s1", "s3", *many):
        index.remove(session)
    await index.settled()
    assert await index.erased()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as db:
        content += b"".join(decompress(data) for (data,) in db.execute("SELECT data FROM chunk"))
    assert not [word for word in gone if word[3:].encode() in content]
    assert (await index.search(SearchQuery(query=kept))).total == 1
    await index.close()


async def test_nobody_waits_while_the_file_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list also shows what was fed meanwhile; only a search for that waits for it."""
    begun, go_on = threading.Event(), threading.Event()
    erase = erase_module.erase

    def held(db: sqlite3.Connection, path: str) -> None:
        begun.set()
        assert go_on.wait(60)
        erase(db, path)

    monkeypatch.setattr(erase_module, "erase", held)
    async with opened(tmp_path) as index:
        index.put_info(info("a"))
        index.put_info(info("b"))
        index.remove("b")
        await index.settled()
        erased = asyncio.create_task(index.erased())
        await asyncio.to_thread(begun.wait, 60)
        try:
            await asyncio.wait_for(index.settled(0.1), 30)
            assert [one.session_id for one in (await index.list(ListQuery())).items] == ["a"]
            index.put_saved(info("a", fingerprint="x"))
            await asyncio.wait_for(index.settled(0.1), 30)
            index.put_info(info("c"))
            waiting = asyncio.create_task(index.settled(0.1))
            await asyncio.sleep(0)
            assert index.listable()
            assert [one.session_id for one in (await index.list(ListQuery())).items] == ["c", "a"]
            assert not waiting.done() and not erased.done()
        finally:
            go_on.set()
        assert await erased
        await waiting
        assert len((await index.list(ListQuery())).items) == 2
        await index.settled()
        assert await index.fingerprints("default") == {"a": "x", "c": ""}
