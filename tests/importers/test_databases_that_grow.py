"""A database that is looked at after each of its tool's transactions gives the sessions that one import of the last state gives."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_agents_of_today as today
import test_cursor_agent_import as cursor_agent
import test_warp_import as warp
from older_sources import OLDER
from sources import FILES

from sessiond.fs import real
from tests.importers.growing import Rows, Statement, dated, task_versions, transactions
from tests.service.test_follow_equals_import import same
from tests.suite.explore import tries

ORDERS = tries(few=1, usual=2)
WRITERS: dict[str, Callable[[Path], Path]] = {name: OLDER[name] for name in ("crush", "goose", "opencode")} | {
    name: FILES[name][1] for name in ("cursor", "kilo database", "kiro database", "open-webui", "zed")
}

DATABASES = {*WRITERS, "cursor-agent", "llm", "warp"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here cuts the power."""
    monkeypatch.setattr(real, "_sync_file", lambda fd, path: None)
    monkeypatch.setattr(real, "_sync_folder", lambda fd, path: None)


@pytest.mark.parametrize("order", [None, *range(ORDERS)])
@pytest.mark.parametrize("name", WRITERS)
async def test_each_transaction(tmp_path: Path, name: str, order: int | None) -> None:
    """Rows table by table, or those of all tables in turn; every other database has a write-ahead log."""
    (tmp_path / "whole").mkdir()
    path = WRITERS[name](tmp_path / "whole")
    source = tmp_path / "source" / path.name
    chance = None if order is None else random.Random(f"{name} {order}")
    states = Rows(path).written(source, chance, log=order is not None and order % 2 == 0)
    following = await same(tmp_path, source, dated(states, source.parent))
    assert (await following.service.list())["sessions"]
    await following.close()


# Tools whose rows depend on each other in their own way


def llm_turns() -> Iterator[list[Statement]]:
    """Conversations of an old version, then threads: one is named before anything is said in it, one leaves it after the first answer.
    llm writes a turn with all its messages at once.
    """

    def said(key: str, parent: str | None, role: str, text: str) -> list[Statement]:
        row = (key, 0, "text", text)
        return [
            ("INSERT INTO messages VALUES (?, ?, ?, NULL)", key, parent, role),
            ("INSERT INTO parts (message_hash, position, type, text) VALUES (?, ?, ?, ?)", *row),
        ]

    def turn(key: str, thread: str, parent: str | None, tip: str) -> list[Statement]:
        row = (key, thread, parent, tip, f"2026-11-23T10:11:2{key[1:]}+00:00")
        return [
            ("INSERT INTO turns VALUES (?, ?, ?, ?, 'm', 100, ?)", *row),
            ("UPDATE threads SET tip_message_hash = ? WHERE id = ?", tip, thread),
        ]

    def old(key: str, minute: int) -> list[Statement]:
        row = (key, f"asked {key}", f"answered {key}", f"2025-01-01T00:0{minute}:00")
        return [("INSERT INTO responses VALUES (?, 'm', ?, 'Be brief.', ?, 'c', ?)", *row)]

    yield [("INSERT INTO conversations VALUES ('c', 'Old', 'm')",), *old("r0", 0)]
    yield old("r1", 1)
    yield [("INSERT INTO threads VALUES ('t1', 'Fruit', NULL, NULL, '2026-11-23 10:11:20')",)]
    call = json.dumps({"name": "bash", "arguments": {"command": "ls"}, "tool_call_id": "c1"})
    result = json.dumps({"name": "bash", "output": "apple.txt", "tool_call_id": "c1"})
    part = "INSERT INTO parts (message_hash, position, type, payload) VALUES (?, ?, ?, ?)"
    yield [
        *said("h1", None, "user", "What is here?"), *said("h2", "h1", "assistant", "Let me look."),
        (part, "h2", 1, "tool_call", call), *turn("r2", "t1", "h1", "h2"),
    ]  # fmt: skip
    yield [("INSERT INTO threads VALUES ('t2', 'Another', 'h2', 't1', '2026-11-23 10:11:22')",)]
    yield [
        ("INSERT INTO messages VALUES ('h3', 'h2', 'tool', NULL)",), (part, "h3", 0, "tool_result", result),
        *said("h4", "h3", "assistant", "An apple."), *turn("r3", "t1", "h3", "h4"),
    ]  # fmt: skip
    yield [
        *said("h5", "h2", "user", "No, wait."),
        *said("h6", "h5", "assistant", "I wait."),
        *turn("r4", "t2", "h5", "h6"),
    ]
    yield old("r5", 5)
    yield [("UPDATE threads SET name = 'Pears' WHERE id = 't1'",)]


@pytest.mark.parametrize("log", [False, True])
async def test_each_transaction_of_llm(tmp_path: Path, log: bool) -> None:
    source = tmp_path / "source" / "logs.db"
    states = transactions(source, today.SCHEMA, llm_turns(), log=log)
    following = await same(tmp_path, source, dated(states, source.parent))
    assert (await following.service.list())["sessions"]
    await following.close()


def warp_turns() -> Iterator[list[Statement]]:
    """A row for each exchange when it begins, then the conversation's tasks, written again with each message. One conversation has no
    tasks.
    """
    query = "INSERT INTO ai_queries VALUES (?, ?, ?, ?, ?, '/work', 'Completed', 'claude-x')"
    asked = json.dumps([{"Query": {"text": "What is here?", "context": []}}])
    yield [(query, 0, "e0", "c1", "2025-11-01 10:00:00.123", asked)]
    yield [(query, 1, "e1", "c2", "2025-11-01 10:00:00.523", json.dumps([{"Query": {"text": "hi"}}]))]
    task, sub = task_versions(warp.TASK), task_versions(warp.SUBTASK)
    yield [("INSERT INTO agent_tasks VALUES (0, 'c1', 't0', ?)", task[0])]
    for nth, one in enumerate(task[1:]):
        yield [("UPDATE agent_tasks SET task = ? WHERE id = 0", one)]
        if nth == 3:
            yield [("INSERT INTO agent_tasks VALUES (1, 'c1', 't1', ?)", sub[0])]
            yield [(query, 2, "e2", "c1", "2025-11-01 10:00:05.123", json.dumps([{"ActionResult": {"x": 1}}]))]
    yield [(query, 3, "e3", "c2", "2025-11-01 10:00:09.523", json.dumps([{"Query": {"text": "ho"}}]))]


@pytest.mark.parametrize("log", [False, True])
async def test_each_transaction_of_warp(tmp_path: Path, log: bool) -> None:
    source = tmp_path / "source" / "warp.sqlite"
    following = await same(
        tmp_path, source, dated(transactions(source, warp.TABLES, warp_turns(), log=log), source.parent)
    )
    assert (await following.service.list())["sessions"]
    await following.close()


def cursor_agent_blobs() -> Iterator[list[Statement]]:
    """A message is a blob; after each, a new root names all of them, and the row of `meta` the root. A message is taken back."""

    def put(data: bytes) -> tuple[str, Statement]:
        key = hashlib.sha256(data).hexdigest()
        return key, ("INSERT OR IGNORE INTO blobs VALUES (?, ?)", key, data)

    def root(keys: list[str], **more: Any) -> list[Statement]:
        key, statement = put(b"".join(warp.field(1, bytes.fromhex(one)) for one in keys))
        about = {"agentId": "agent-1", "latestRootBlobId": key, "name": "New Agent", "createdAt": 1700000000000, **more}
        return [statement, ("INSERT OR REPLACE INTO meta VALUES ('0', ?)", json.dumps(about).encode().hex())]

    messages = [*cursor_agent.MESSAGES[:3], cursor_agent.LOST, *cursor_agent.MESSAGES[3:]]
    there: list[str] = []
    for message in messages:
        key, statement = put(json.dumps(message).encode())
        there.append(key)
        yield [statement]
        yield root(there)
        if message is cursor_agent.LOST:
            there.pop()
            yield root(there)
    yield root(there, name="Fruit", lastUsedModel="m")


@pytest.mark.parametrize("log", [False, True])
async def test_each_transaction_of_cursor_agent(tmp_path: Path, log: bool) -> None:
    source = tmp_path / "chats" / "abc" / "agent-1" / "store.db"
    schema = (
        "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB); CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"
    )
    following = await same(
        tmp_path, source, dated(transactions(source, schema, cursor_agent_blobs(), log=log), source.parent)
    )
    assert (await following.service.list())["sessions"]
    await following.close()
