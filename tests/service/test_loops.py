"""Loops over other people's things: an exception in one of them costs that thing only, is told, and the thing is tried again
where it may pass. One table for each way in: a new loop is a row.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sessiond.importers import (
    claude_code_repeats,
    claude_code_tree,
    codex,
    cursor_agent,
    database,
    gemini_survey,
    object_log,
    protobuf,
    registry,
    vibe_store,
    warp,
)
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import MessageRecord, open_source
from sessiond.service import catalog as catalog_module
from sessiond.service import followed_sources, intake
from sessiond.service.catalog import Catalog
from sessiond.service.imported_session import New
from sessiond.service.intake import Intake
from sessiond.store import summaries
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.port import Listed
from tests.fakes.peer import FakePeer, user
from tests.service.test_intake import S, Served, served, transcript, wire_id

sys.path.append(str(Path(__file__).parents[1] / "importers"))
from older_sources import OLDER
from sources import FILES

__all__ = ["served"]

WRITERS = {name: write for name, (_, write) in FILES.items()} | OLDER


class Loop(NamedTuple):
    """`owner.name` is called for each thing in the loop; `thing` finds in its arguments which one."""

    owner: Any
    name: str
    thing: Callable[..., Any]

    def plant(self, patch: pytest.MonkeyPatch, bad: str) -> list[str]:
        """The call for this thing fails. Returns what was called, by thing."""
        real, called = getattr(self.owner, self.name), []

        def planted(*args: Any, **named: Any) -> Any:
            called.append(str(self.thing(*args, **named)))
            if called[-1] == bad:
                raise KeyError("planted")
            return real(*args, **named)

        patch.setattr(self.owner, self.name, planted)
        return called


# Imports: three files, of which the one in the middle fails

FILES = {
    "a file is identified": Loop(registry, "identify", lambda path, *_, **__: Path(path).stem),
    "a file is passed over": Loop(Intake, "_passed_over", lambda _, path, mark: Path(path).stem),
    "an importer recognises": Loop(registry.BY_NAME["codex"], "recognise", lambda path, head: Path(path).stem),
    "a session begins": Loop(Intake, "_begin", lambda _, start, file: start.source_id),
    "a message is taken": Loop(New, "take", lambda self, *_: self.local_id.removeprefix("claude-code-")),
    "a session is stored": Loop(New, "finish", lambda self, *_: self.local_id.removeprefix("claude-code-")),
}


@pytest.mark.parametrize("loop", FILES.values(), ids=FILES)
async def test_a_file_costs_itself(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop) -> None:
    """Another importer may still know the file; otherwise it is warned of, and the next import brings it."""
    paths = [transcript(tmp_path / "p", range(1, 4), S + n) for n in "012"]
    with monkeypatch.context() as patch:
        called = loop.plant(patch, paths[1].stem)
        first = await served.bring(tmp_path / "p")
    assert paths[1].stem in called, "the table is out of date"
    came = {info["sessionId"] for info in first["sessions"]}
    assert came >= {wire_id(paths[0]), wire_id(paths[2])}
    if wire_id(paths[1]) not in came:
        assert [os.path.basename(one["path"]) for one in first["warnings"]] == [paths[1].name]
        assert "planted" in first["warnings"][0]["message"]
        again = await served.bring(tmp_path / "p")
        assert [info["sessionId"] for info in again["sessions"]] == [wire_id(paths[1])]


async def test_a_session_costs_itself_in_a_file_of_several(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message on which taking it fails costs its session; the file's others come, and it the next time."""
    path = tmp_path / ".aider.chat.history.md"
    chats = [f"# aider chat started at 2025-03-04 05:06:0{n}\n\n#### question {n}  \n\nanswer {n}\n" for n in range(3)]
    path.write_text("\n" + "\n".join(chats))
    ids = [one["sessionId"] for one in (await served.bring(path, dry_run=True))["sessions"]]
    with monkeypatch.context() as patch:
        Loop(New, "take", lambda self, *_: self.local_id).plant(patch, ids[1])
        first = await served.bring(path)
    assert [one["sessionId"] for one in first["sessions"]] == [ids[0], ids[2]]
    assert [one["message"] for one in first["warnings"]] == [f"{ids[1]} cannot be imported: KeyError('planted')"]
    assert [one["sessionId"] for one in (await served.bring(path))["sessions"]] == [ids[1]]


async def test_a_late_name_costs_itself(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other sessions get the names that another file has for them."""
    for n in "012":
        transcript(tmp_path / "p", range(1, 3), S + n)
    await served.bring(tmp_path / "p")
    names = tmp_path / "names" / "x.jsonl"
    names.parent.mkdir()

    async def run(events: list[str]) -> dict[str, Any]:
        event = intake.InfoUpdate
        real = Intake._foreign

        async def foreign(self: Intake, path: str, native: Any) -> None:
            await real(self, path, native)
            self._names = [(event(n, f"claude-code-{S}{n}", {"name": f"name {n}"}), str(names)) for n in events]

        with monkeypatch.context() as patch:
            patch.setattr(Intake, "_foreign", foreign)
            return await served.bring(tmp_path / "names")

    with monkeypatch.context() as patch:
        loop = Loop(intake, "give_name", lambda place, tally, event: event.source_id)
        loop.plant(patch, "1")
        result = await run(["0", "1", "2"])
    assert any("planted" in one["message"] for one in result["warnings"])

    def name_of(n: str) -> str | None:
        return served.index.infos[f"claude-code-{S}{n}"].name

    await served.service.catalog.searchable()
    assert [name_of(n) for n in "02"] == ["name 0", "name 2"]
    await run(["1"])
    await served.service.catalog.searchable()
    assert name_of("1") == "name 1"


# Sources: what an importer loops over, of which one thing fails


async def said(served: Served) -> set[str]:
    """All messages of all sessions."""
    await served.service.catalog.searchable()
    ids = list(served.index.infos)
    messages = [one for session_id in ids for one in (await served.service.read(session_id))["messages"]]
    return {json.dumps([one["role"], one["content"]]) for one in messages}


def doubled(folder: Path) -> Path:
    """A Claude Code file that has each of its records twice."""
    path = WRITERS["claude-code"](folder)
    path.write_text(path.read_text() * 2)
    return path


LOOPS: dict[str, tuple[Callable[[Path], Path], Any, str]] = {
    f"a record of {name}": (write, SessionDraft, "message") for name, write in WRITERS.items()
} | {
    "a row of a database": (WRITERS["open-webui"], database, "_plain"),
    "a record that Gemini's survey reads": (WRITERS["gemini-cli"], gemini_survey.Survey, "_take"),
    "a record that has a place in a tree": (WRITERS["claude-code"], claude_code_tree.Tree, "take"),
    "a record that is there twice": (doubled, claude_code_repeats.ClaudeCodeRepeats, "_note"),
    "a header of Codex": (WRITERS["codex"], codex, "start"),
    "a change in a log": (WRITERS["copilot-chat log"], object_log.ObjectLog, "apply"),
    "a change in a journal": (WRITERS["vibe store"], vibe_store, "_put"),
    "what a store says of its session": (WRITERS["cursor-agent"], cursor_agent, "_about"),
    "what a blob names": (WRITERS["cursor-agent"], protobuf, "fields"),
    "a task of Warp": (WRITERS["warp"], warp, "_messages"),
}


@pytest.mark.parametrize(("write", "owner", "name"), LOOPS.values(), ids=LOOPS)
async def test_a_thing_in_a_source_costs_itself(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, owner: Any, name: str
) -> None:
    """The first one, in front of all others: these come, it is told, and the next import brings it."""
    folder = tmp_path / "sources"
    folder.mkdir()
    path, calls = write(folder), iter(range(1, 1_000_000))
    with monkeypatch.context() as patch:
        called = Loop(owner, name, lambda *_, **__: next(calls)).plant(patch, "1")
        result = await served.bring(path)
    assert "1" in called, "the table is out of date"
    assert any("planted" in one["message"] for one in result["warnings"])
    some = await said(served)
    await served.bring(path)
    whole = await said(served)
    found = registry.identify(str(path), None, named=True)
    assert isinstance(found, registry.Found)
    read = [
        one.message
        for one in registry.BY_NAME[found.importer].read(str(path), open_source)
        if isinstance(one, MessageRecord)
    ]
    assert some
    assert whole >= {json.dumps([one["role"], one["content"]]) for one in read}


# Following: three files that came in are gone


async def test_a_file_that_is_gone_costs_itself(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(transcript(tmp_path / "p", range(1, 4), S + n)) for n in "012"]
    await served.bring(tmp_path / "p")
    [store] = served.service.stores.values()
    followed = await served.service.transfer.followed(store)
    with monkeypatch.context() as patch:
        Loop(followed_sources.FollowedSources, "_set_gone", lambda _, path, gone: path).plant(patch, paths[1])
        await followed.gone(paths)
    assert await followed.known() == [paths[1]]
    await followed.gone(paths)
    assert await followed.known() == []


# The catalogue: three sessions, of which the one in the middle fails

SHOWN = {
    "what lists show of a file is read": Loop(summaries, "_head_of", lambda files, limits, local_id: local_id),
    "what lists show is told": Loop(catalog_module, "bare", lambda store, info: info.session_id),
    "a session is read": Loop(Catalog, "_take_in", lambda self, one, session: session.local_id),
    "a file is compared": Loop(StoreFiles, "prints", lambda self, local_id, *_, **__: local_id),
}


@pytest.mark.parametrize("loop", SHOWN.values(), ids=SHOWN)
async def test_a_session_costs_itself_in_a_check_of_all(
    served: Served, monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    """The others are listed and found. The check comes to its end. What is missing is named, and comes when it is tried again."""
    for name in "abc":
        await served.service.new(FakePeer("one"), session_id=name, messages=[user(f"word of {name}")])
    await served.close()
    served.index.infos.clear()
    served.index.messages.clear()
    with monkeypatch.context() as patch:
        called = loop.plant(patch, "b")
        await served.start()
    assert "b" in called, "the table is out of date"
    catalog = served.service.catalog
    assert not served.index.incomplete
    assert set(served.index.messages) >= {"a", "c"}
    if "b" not in served.index.messages:
        assert catalog.status().problem == "not everything could be indexed of b"
        assert await served.service.reindex() == {"b": None}
    assert catalog.status().problem is None
    assert set(served.index.infos) == set(served.index.messages) == set("abc")


async def test_a_session_costs_itself_when_changes_are_fed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    peer, catalog = FakePeer("one"), served.service.catalog
    for name in "abc":
        await served.service.new(peer, session_id=name)
    await catalog.searchable()
    with monkeypatch.context() as patch:
        Loop(Catalog, "_indexed", lambda self, one, session: session.local_id).plant(patch, "b")
        for name in "abc":
            await served.service.append(peer, name, [user(f"word of {name}")])
        await catalog.searchable()
    assert [len(served.index.messages.get(name, ())) for name in "abc"] == [1, 0, 1]
    assert catalog.status().problem == "not everything could be indexed of b"
    assert await served.service.reindex() == {"b": None}
    assert len(served.index.messages["b"]) == 1


async def test_a_session_that_may_be_gone_costs_itself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that the index knows and the folder does not have are forgotten, whatever one of them does."""
    [store] = served.service.stores.values()
    for name in "abc":
        await served.service.new(FakePeer("one"), session_id=name)
    await served.service.save()
    await served.service.catalog.searchable()
    real = store.scan

    async def known(_: str) -> dict[str, str]:
        return dict.fromkeys(served.index.infos, "f")

    monkeypatch.setattr(served.index, "fingerprints", known)

    async def nothing() -> Any:
        empty: list[Listed] = []
        async for _ in real():
            yield empty

    monkeypatch.setattr(store, "scan", nothing)
    monkeypatch.setattr(served.service.catalog.owners, "peek", lambda _: None)
    monkeypatch.setattr(served.service.catalog.owners, "in_memory", lambda _: [])
    for file in served.files():
        os.unlink(Path(served.house.folder) / file)
    with monkeypatch.context() as patch:
        called = Loop(FolderStore, "look", lambda self, local_id: local_id).plant(patch, "b")
        await served.service.catalog.check(store)
    assert "b" in called, "the table is out of date"
    assert set(served.index.infos) == {"b"}
    assert served.service.catalog.status().problem == "not everything could be indexed of b"
    await served.service.catalog.check(store)
    assert not served.index.infos
