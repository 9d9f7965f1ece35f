"""The tags and the archive of a source are tags and the archive here, and stay what somebody made of them here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from collected import lines, read

from sessiond.fs import RealFileSystem
from sessiond.importers.draft import tags_of
from sessiond.limits import Limits
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

T = 1700000000
BORN = "2023-11-14T22:13:20.000Z"
Write = Callable[[Path, bool], Path]


def document(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def open_webui(folder: Path, archived: bool, tags: tuple[str, ...] = ("garden", "trees")) -> Path:
    said = {"id": "m1", "parentId": None, "childrenIds": [], "role": "user", "content": "hi", "timestamp": T}
    chat = {"title": "A chat", "history": {"messages": {"m1": said}, "currentId": "m1"}, "tags": list(tags)}
    row = {"id": "o1", "title": "A chat", "chat": chat, "created_at": T, "updated_at": T, "archived": archived}
    return document(folder / "chats.json", [{**row, "meta": {"tags": list(tags[:1])}}])


def chatgpt(folder: Path, archived: bool) -> Path:
    said = {
        "id": "n1",
        "author": {"role": "user"},
        "create_time": T,
        "content": {"content_type": "text", "parts": ["hi"]},
    }
    nodes = {"n1": {"id": "n1", "parent": None, "children": [], "message": said}}
    talk = {"id": "c1", "title": "A talk", "create_time": T, "mapping": nodes, "current_node": "n1"}
    return document(folder / "conversations.json", [{**talk, "is_archived": archived}])


def librechat(folder: Path, archived: bool) -> Path:
    said = {"messageId": "m1", "parentMessageId": None, "text": "hi", "isCreatedByUser": True, "createdAt": BORN}
    talk = {"conversationId": "l1", "endpoint": "openAI", "title": "A talk", "exportAt": "10:00:00", "messages": [said]}
    return document(folder / "talk.json", {**talk, "tags": ["garden", "trees"], "isArchived": archived})


def codex(folder: Path, archived: bool) -> Path:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    name = "rollout-2023-11-14T22-13-20-11111111-2222-4333-8444-555555555555.jsonl"
    path = folder / ("archived_sessions" if archived else "sessions") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"timestamp": BORN, "type": "session_meta", "payload": {"id": "x1", "timestamp": BORN}}
    return lines(path, head, {"timestamp": BORN, "type": "response_item", "payload": item})


def opencode(folder: Path, archived: bool) -> Path:
    times = {"created": T * 1000, "updated": T * 1000} | ({"archived": T * 1000 + 5} if archived else {})
    message = {"info": {"id": "msg_1", "role": "user", "time": {"created": T * 1000}}, "parts": []}
    return document(folder / "ses_1.json", {"info": {"id": "ses_1", "time": times}, "messages": [message]})


def opencode_database(folder: Path, archived: bool) -> Path:
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE session (id TEXT, project_id TEXT, title TEXT, directory TEXT, time_created INTEGER, time_archived INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
        """)
        db.execute("INSERT INTO session VALUES ('ses_1', 'p', 'x', '/w', ?, ?)", (T * 1000, T if archived else None))
        db.execute("INSERT INTO message VALUES ('m', 'ses_1', ?, '{\"role\": \"user\"}')", (T * 1000,))
        db.commit()
    return path


SOURCES: dict[str, tuple[str, Write]] = {
    "open-webui": ("open-webui", open_webui),
    "chatgpt": ("chatgpt", chatgpt),
    "librechat": ("librechat", librechat),
    "codex": ("codex", codex),
    "opencode": ("opencode", opencode),
    "opencode database": ("opencode", opencode_database),
    "kilo database": ("kilo", lambda folder, archived: opencode_database(folder, archived).rename(folder / "kilo.db")),
}
TAGGED = ("open-webui", "librechat")


@pytest.mark.parametrize("archived", [True, False])
@pytest.mark.parametrize("name", SOURCES)
def test_what_is_archived_or_tagged_there_is_so_here(name: str, archived: bool, tmp_path: Path) -> None:
    """Each tag comes in once, and the session began when the source says so."""
    tool, write = SOURCES[name]
    info = read(write(tmp_path, archived), tool).only_info
    assert info["archived"] is archived
    assert info.get("tags", []) == (["garden", "trees"] if name in TAGGED else [])
    assert info["createdAt"] == BORN


def test_odd_tags_are_left_out() -> None:
    """Tags are texts, or objects with a name; blanks in them are single, and there are not too many."""
    assert tags_of(["a", {"name": " b  c "}, "", None, 5, {"name": []}, "a"]) == ["a", "b c"]
    assert tags_of("garden") is None
    assert len(tags_of([str(n) for n in range(10_000)]) or []) == 100


async def test_a_later_import_follows_the_source_but_not_over_a_change_here(tmp_path: Path) -> None:
    """Tags and the archive change with the source until somebody changes them here. Tags of their own are never taken away."""
    store = (await House(RealFileSystem(), str(tmp_path / "home")).open()).store
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()

    async def imported(archived: bool, *tags: str) -> tuple[list[str], bool]:
        await service.import_(None, str(open_webui(tmp_path, archived, tags)))
        found = [one for wanted in ({}, {"archived": True}) for one in (await service.list(filter=wanted))["sessions"]]
        return found[0].get("tags", []), found[0].get("archived", False)

    try:
        assert await imported(False, "garden") == (["garden"], False)
        assert await imported(True, "garden", "trees") == (["garden", "trees"], True)
        await service.update(None, "open-webui-o1", {"tags": ["mine"], "archived": False})
        assert await imported(True, "garden", "trees", "more") == (["mine"], False)
    finally:
        await service.close()
