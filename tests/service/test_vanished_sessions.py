"""A session that its source no longer has, though the source is there, stays here and says so."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.importers.test_agents_of_today import llm_db
from tests.service.test_follow_equals_import import OpenCodeDb, told
from tests.service.test_intake import Served

CHATS = [
    "\n# aider chat started at 2025-03-04 05:06:07\n\n#### one  \n\nAn apple.\n",
    "\n# aider chat started at 2025-03-05 05:06:07\n\n#### two  \n\nA pear.\n",
]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = await Served(tmp_path / "home", str(tmp_path / "ledger.db")).start()
    (tmp_path / "source").mkdir()
    yield made
    await made.close()


async def gone(served: Served) -> dict[str, bool]:
    """Session -> whether it says that its source no longer has it."""
    listed: list[dict[str, Any]] = (await served.service.list())["sessions"]
    return {info["sessionId"]: info["metadata"]["source"].get("gone", False) for info in listed}


async def look(served: Served, path: Path, *, followed: bool) -> None:
    store = served.service.stores["default"]
    wanted: dict[str, Any] = {"format": None, "since": None, "dry_run": False, "progress": None}
    await served.service.transfer.import_(str(path), store, followed=followed, **wanted)


@pytest.mark.parametrize("followed", [False, True])
async def test_a_chat_that_was_cut_from_its_file(served: Served, tmp_path: Path, followed: bool) -> None:
    """Aider's file holds many; it says so no longer when the chat is back."""
    path = tmp_path / "source" / ".aider.chat.history.md"
    path.write_text("".join(CHATS))
    await look(served, path, followed=followed)
    first, second = sorted(await gone(served))
    path.write_text(CHATS[1])
    await look(served, path, followed=followed)
    assert await gone(served) == {first: True, second: False}
    await served.restart()
    path.write_text("".join(CHATS) + "\n")
    await look(served, path, followed=followed)
    assert await gone(served) == {first: False, second: False}
    assert await served.texts(first) == ["one", "An apple."]


async def test_a_conversation_of_llm_that_was_deleted(served: Served, tmp_path: Path) -> None:
    path = llm_db(tmp_path / "source" / "logs.db")
    await served.bring(path)
    before = await gone(served)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM responses WHERE conversation_id = 'c'")
        db.execute("DELETE FROM conversations WHERE id = 'c'")
    await served.bring(path)
    assert await gone(served) == {**before, "llm-c": True}


@pytest.mark.parametrize("followed", [False, True])
async def test_a_file_that_was_emptied(served: Served, tmp_path: Path, followed: bool) -> None:
    path = tmp_path / "source" / "s.jsonl"
    await look(served, told(path, "a", "b"), followed=followed)
    path.write_bytes(b"")
    await look(served, path, followed=followed)
    assert await gone(served) == {"claude-code-s": True}
    await look(served, told(path, "a", "b"), followed=followed)
    assert await gone(served) == {"claude-code-s": False}
    assert await served.texts("claude-code-s") == ["a", "b"]


async def test_a_session_of_opencode_that_was_deleted(served: Served, tmp_path: Path) -> None:
    """The only one, so nothing is left in the database."""
    db = OpenCodeDb(tmp_path / "source" / "of" / "opencode.db")
    for one in db.turn():
        one()
    await served.bring(db.path)
    with sqlite3.connect(db.path) as other:
        other.execute("DELETE FROM session")
        other.execute("DELETE FROM message")
        other.execute("DELETE FROM part")
    await served.bring(db.path)
    db.close()
    assert await gone(served) == {"opencode-ses_1": True}
