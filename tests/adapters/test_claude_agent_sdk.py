"""`sessiond.adapters.claude_agent_sdk` keeps the SDK's contracts, and writes sessions that people can read."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    fold_session_summary,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance

from sessiond.adapters.claude_agent_sdk import KEY, SessiondStore
from sessiond.client import aconnect
from tests.adapters.conftest import KilledHome
from tests.shell import Shell

PROJECT = "-home-me-proj"
SESSION = "6d0c6f5e-9a53-4be0-9c4c-5c4f3d5a1c11"
MAIN: Any = {"project_key": PROJECT, "session_id": SESSION}
SUBAGENT: Any = {**MAIN, "subpath": "subagents/agent-1"}


def entry(uuid: str | None, kind: str = "user", content: Any = "Hi", **more: Any) -> Any:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    found = {"type": kind, "message": message, "timestamp": "2026-11-24T08:00:00.000Z", "cwd": "/home/me/proj", **more}
    return found if uuid is None else {**found, "uuid": uuid}


async def test_the_contracts_of_the_sdk(monkeypatch: Any) -> None:
    """All 14 that the package ships, each with an empty home."""
    homes: list[Shell] = []

    def make() -> SessiondStore:
        homes.append(Shell())
        return SessiondStore(home=str(homes[-1].path))

    try:
        await run_session_store_conformance(make)
        assert len(homes) == 15  # one more asks which of the optional methods are there
    finally:
        for home in homes:
            home.close()


async def test_people_read_a_transcript(at_home: KilledHome) -> None:
    """Roles, text, thinking, tool calls, results, title, folder, model and tokens are where every client looks for them."""
    blocks = [
        {"type": "thinking", "thinking": "A file.", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py"}},
    ]
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2}
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "print(1)"}]}]
    entries = [
        entry("u1", content="What is in a.py?"),
        entry("u2", "assistant", blocks, message={"id": "m1", "model": "claude-x", "usage": usage}),
        entry("u3", content=result),
        {"type": "ai-title", "aiTitle": "A look at a.py", "sessionId": SESSION},
    ]
    store = SessiondStore()
    await store.append(MAIN, entries[:2])
    await store.append(MAIN, entries[2:])
    assert await store.load(MAIN) == entries
    async with await aconnect() as sessiond:
        chat = sessiond.session(store.session_id(MAIN))
        info, messages = await chat.info(), await chat.messages()
        assert (info.name, info.cwd, info.model, info.tags) == ("A look at a.py", "/home/me/proj", "claude-x", [KEY])
        assert [(one.id, one.role, one.text, one.thinking, one.tool_call_id) for one in messages[:3]] == [
            ("u1", "user", "What is in a.py?", None, None),
            ("u2", "assistant", "I look.", "A file.", None),
            ("u3", "tool", "print(1)", None, "t1"),
        ]
        (call,) = messages[1].tool_calls or []
        assert (call.id, call.name, call.arguments) == ("t1", "Read", {"path": "a.py"})
        assert (messages[3].role, (messages[3].metadata or {})["injected"]) == ("system", True)
        (row,) = (await sessiond.usage("model")).rows
        assert (row.key, row.total.input, row.total.cache_read, row.total.output) == ("claude-x", 7, 2, 3)


async def test_a_uuid_is_there_once(at_home: KilledHome) -> None:
    """Whether it comes again in a later append, in the same one, or with other content; entries without one are all kept."""
    store = SessiondStore()
    one, two, three = entry("a"), entry("b", content="two"), entry("c", content="three")
    title = {"type": "mode", "mode": "plan"}
    await store.append(MAIN, [one, title, one])
    await store.append(MAIN, [one, title, two])
    await store.append(MAIN, [title, {**two, "changed": True}, three])
    assert await store.load(MAIN) == [one, title, title, two, title, three]


async def test_the_sdks_own_readers(at_home: KilledHome, tmp_path: Path) -> None:
    """What the SDK lists and reads from the store: titles, first prompts, and a conversation along its tree."""
    store = SessiondStore()
    key: Any = {**MAIN, "project_key": project_key_for_directory(str(tmp_path))}
    said = [entry("a", content="First prompt", parentUuid=None, sessionId=SESSION)]
    said.append(entry("b", "assistant", "Reply", parentUuid="a", sessionId=SESSION))
    await store.append(key, said)
    await store.append({**key, "subpath": "subagents/agent-1"}, [entry("s", isSidechain=True)])
    for _ in range(2):
        (listed,) = await list_sessions_from_store(store, directory=str(tmp_path))
        assert (listed.session_id, listed.first_prompt) == (SESSION, "First prompt")
        await store.append(key, [{"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION}])
    (listed,) = await list_sessions_from_store(store, directory=str(tmp_path))
    assert listed.custom_title == "Mine"
    read = await get_session_messages_from_store(store, SESSION, directory=str(tmp_path))
    assert [one.uuid for one in read] == ["a", "b"]


async def test_summaries_are_what_one_fold_would_make(at_home: KilledHome) -> None:
    """However the entries were cut into appends and lists, by whichever of two processes."""
    stores = [SessiondStore(), SessiondStore(home=str(at_home.path))]
    rng = random.Random(7)
    entries = [
        rng.choice(
            (
                entry(f"u{n}", content=f"prompt {n}"),
                {"type": "tag", "tag": f"t{n}"},
                {"type": "x", "customTitle": f"c{n}"},
            )
        )
        for n in range(30)
    ]
    left = list(entries)
    while left:
        count = rng.randint(1, 5)
        await rng.choice(stores).append(MAIN, left[:count])
        del left[:count]
        if rng.random() < 0.5:
            await asyncio.gather(*(one.list_session_summaries(PROJECT) for one in stores))
    (kept,) = await stores[0].list_session_summaries(PROJECT)
    assert kept["data"] == fold_session_summary(None, MAIN, entries)["data"]
    (listed,) = await stores[0].list_sessions(PROJECT)
    assert kept["mtime"] >= listed["mtime"]


async def test_a_list_changes_nothing_that_others_see(at_home: KilledHome) -> None:
    """Neither when a session was written last, nor its metadata: a picker that shows all sessions is a reader."""
    store = SessiondStore()
    await store.append(MAIN, [entry("u1", content="prompt")])
    async with await aconnect() as sessiond:
        session = sessiond.session(store.session_id(MAIN))
        before = await session.info()
        (summed,) = await store.list_session_summaries(PROJECT)
        assert summed["data"]["first_prompt"] == "prompt"
        after = await session.info()
        assert (after.updated_at, after.metadata) == (before.updated_at, before.metadata)
        entries = [entry("u1", content="prompt"), entry("u2", content="more")]
        await store.append(MAIN, entries[1:])
        (summed,) = await store.list_session_summaries(PROJECT)
        assert summed["data"] == fold_session_summary(None, MAIN, entries)["data"]


async def test_other_clients_leave_the_tree_alone(at_home: KilledHome) -> None:
    """A person's message in the session is not an entry of the transcript, and a rename does not hide the session."""
    store = SessiondStore()
    await store.append(MAIN, [entry("a")])
    async with await aconnect() as sessiond:
        chat = sessiond.session(store.session_id(MAIN))
        await chat.append("user", "a remark")
        await chat.update(name="renamed")
    await store.append(MAIN, [entry("b")])
    assert [one["uuid"] for one in await store.load(MAIN) or []] == ["a", "b"]  # type: ignore[typeddict-item]
    assert [one["session_id"] for one in await store.list_sessions(PROJECT)] == [SESSION]


async def test_a_deleted_transcript_can_be_restored(at_home: KilledHome) -> None:
    """Deleting goes to the trash, subagents too; and the same key may be written again."""
    store = SessiondStore()
    for key in (MAIN, SUBAGENT):
        await store.append(key, [entry("a")])
    await store.delete(MAIN)
    assert await store.load(MAIN) is None and await store.load(SUBAGENT) is None
    async with await aconnect() as sessiond:
        assert {one.session_id async for one in sessiond.sessions(deleted=True)} == {
            store.session_id(MAIN),
            store.session_id(SUBAGENT),
        }
    await store.append(MAIN, [entry("b")])
    assert await store.load(MAIN) == [entry("b")]
