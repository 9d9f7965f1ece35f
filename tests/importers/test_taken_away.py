"""Whatever a tool takes away from its source stays here, in its place and marked, whether the source is imported or followed; when it is
back, everything is as if it had never been away. For every tool, and every way in which its source can lose something.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from collected import Stream, read
from test_databases_that_grow import DATABASES, quick
from test_files_that_grow import WRITERS, written

from tests.importers.growing import as_before, document_of, has_conversation, record_ends, shortened, summarised, touch
from tests.service.test_follow_equals_import import shown
from tests.service.test_intake import Served

__all__ = ["quick"]
ROWS = {"crush": "messages", "goose": "messages", "kilo database": "message", "opencode": "message", "llm": "responses"}
"""Tables with a row for each message."""
OPAQUE = {
    "cursor": "a bubble stays in the database after its conversation stops listing it",
    "cursor-agent": "its blobs are named by their digests",
    "warp": "its tasks are Protocol Buffers",
}
"""Databases of which nothing can be taken away here, but everything."""
NOT_FROM_THE_BEGINNING = {
    "agent-shell": "its calls are named after their lines",
    "aider": "a chat is named after its first line",
    "avante entries": "nothing else tells whose file it is",
    "codecompanion": "of the same words said twice, nothing says which are left",
    "llm": "a thread is read from its tip",
    "specstory": "its calls are named after their lines",
}
BEGINS = {"aider": b"\n####", "agent-shell": b"\n## User", "specstory": b"\n_**User"}
"""Where the last message of a text begins: half a message would be another one."""
APART = {
    "copilot-chat log": "a log of changes: without its beginning it says nothing",
    "vibe store": "a journal on top of a generation",
    "acpx journal": "its first record is the session's prompt",
    "gptel": "where its answers are is said at the end of the file",
}
"""Files that are only taken away as a whole, and why."""


def take_half(name: str, folder: Path, source: Path, *, beginning: bool) -> None:
    """Without its first or second half; a file of records keeps the first one, which may say what it is."""
    if name in DATABASES:
        with closing(sqlite3.connect(source)) as db:
            _take_rows(db, ROWS[name], beginning) if name in ROWS else _take_from_documents(db, beginning)
            db.commit()
        return
    growing, parts = written(folder, source)
    middle = len(parts) // 2
    for path in parts[1:middle] if beginning else parts[middle:]:
        path.unlink()
    for path in growing:
        raw = path.read_bytes()
        ends = record_ends(raw)
        if path.suffix == ".json":
            path.write_text(json.dumps(shortened(json.loads(raw), beginning=beginning)))
        elif name in BEGINS:
            path.write_bytes(raw[: raw.rindex(BEGINS[name]) + 1])
        elif beginning:
            path.write_bytes(raw[: ends[0]] + raw[ends[len(ends) // 2] :])
        else:
            path.write_bytes(raw[: len(raw) // 2])


def _take_rows(db: sqlite3.Connection, table: str, beginning: bool) -> None:
    rows = [one[0] for one in db.execute(f'SELECT rowid FROM "{table}" ORDER BY rowid')]
    middle = len(rows) // 2
    gone = rows[:middle] if beginning else rows[middle:]
    db.executemany(f'DELETE FROM "{table}" WHERE rowid = ?', [(one,) for one in gone])


def _take_from_documents(db: sqlite3.Connection, beginning: bool) -> None:
    for name in tables(db):
        columns = [one[1] for one in db.execute(f'PRAGMA table_info("{name}")')]
        for rowid, *cells in db.execute(f'SELECT rowid, * FROM "{name}"').fetchall():
            for column, cell in zip(columns, cells, strict=True):
                document = document_of(cell)
                if document is not None and has_conversation(document):
                    less = as_before(cell, shortened(document, beginning=beginning))
                    db.execute(f'UPDATE "{name}" SET "{column}" = ? WHERE rowid = ?', (less, rowid))


def tables(db: sqlite3.Connection) -> list[str]:
    return [one[0] for one in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def take_all(name: str, source: Path) -> None:
    if name not in DATABASES:
        source.write_bytes(b"")
        return
    with closing(sqlite3.connect(source)) as db:
        for name in tables(db):
            db.execute(f'DELETE FROM "{name}"')
        db.commit()


async def messages(served: Served) -> dict[str, list[dict[str, Any]]]:
    """Session -> its messages."""
    return {wire_id: json.loads(exports["json"])["messages"] for wire_id, exports in (await shown(served)).items()}


def words(message: dict[str, Any]) -> Any:
    return message["role"], message["content"], message.get("thinking"), message.get("toolCalls")


async def look(served: Served, source: Path, *, followed: bool) -> None:
    store = served.service.stores["default"]
    wanted: dict[str, Any] = {"format": None, "since": None, "dry_run": False, "progress": None}
    await served.service.transfer.import_(str(source), store, followed=followed, **wanted)


def ways(name: str) -> list[str]:
    if name in OPAQUE or name in APART:
        return ["emptied"]
    return ["end", "emptied"] if name in NOT_FROM_THE_BEGINNING else ["beginning", "end", "emptied"]


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in sorted(WRITERS) for way in ways(name)])
async def test_what_is_taken_away_stays(tmp_path: Path, name: str, way: str) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    source = WRITERS[name](folder)
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def take() -> None:
        if way == "emptied":
            take_all(name, source)
        else:
            take_half(name, folder, source, beginning=way == "beginning")

    def put_back() -> None:
        for path, raw in whole.items():
            path.write_bytes(raw)

    importing, following = [
        await Served(tmp_path / one, str(tmp_path / f"{one}.db")).start() for one in ("importing", "following")
    ]

    async def seen(state: Callable[[], object]) -> dict[str, list[dict[str, Any]]]:
        """The messages that both have then."""
        state()
        states.append(state)
        for path in whole:
            if path.exists():
                touch(path, 1_700_000_000, len(states))
        for served, followed in ((importing, False), (following, True)):
            await look(served, source, followed=followed)
        assert await shown(importing) == await shown(following)
        return await messages(importing)

    states: list[Callable[[], object]] = []
    before, first = await seen(lambda: None), await shown(importing)
    after = await seen(take)
    stream = read(source) if way != "emptied" else Stream([])
    there = {
        stream.starts[one].suggested_id: {message["id"] for message in many} for one, many in stream.messages.items()
    }
    for wire_id, many in before.items():
        assert [words(one) for one in after[wire_id]] == [words(one) for one in many], wire_id
        if wire_id in there:
            marks = [one["id"] for one in after[wire_id] if one.get("metadata", {}).get("compacted")]
            assert marks == [one["id"] for one in many if one["id"] not in there[wire_id]], wire_id
    assert sum(map(len, there.values())) < sum(map(len, before.values()))
    await importing.restart()
    assert await seen(put_back) == before
    assert await shown(importing) == first
    await importing.close()
    await following.close()


SUMMARISED = ("cline", "continue", "kilo", "librechat", "messages", "roo")


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("name", SUMMARISED)
async def test_a_summary_instead_of_the_beginning(tmp_path: Path, name: str, followed: bool) -> None:
    """A document that is written again so: the summary is a message of its own, between what is gone and what is left."""
    folder = tmp_path / "source"
    folder.mkdir()
    source = WRITERS[name](folder)
    served = await Served(tmp_path / "home", str(tmp_path / "ledger.db")).start()
    await look(served, source, followed=followed)
    [before] = (await messages(served)).values()
    source.write_text(json.dumps(summarised(json.loads(source.read_bytes()), "A summary of it.")))
    await look(served, source, followed=followed)
    [after] = (await messages(served)).values()
    [at] = [nth for nth, one in enumerate(after) if "A summary of it." in json.dumps(one["content"])]
    assert [words(one) for one in after if one is not after[at]] == [words(one) for one in before]
    marks = [one.get("metadata", {}).get("compacted", False) for one in after]
    assert marks == [nth < at for nth in range(len(after))]
    assert 0 < at < len(after) - 1
    await served.close()
