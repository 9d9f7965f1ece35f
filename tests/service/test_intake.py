"""Importing under difficulties: again, in parts, cancelled, while the source grows, with bad files between good ones."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import InvalidParams, ReadOnly, Unavailable
from sessiond.fs import RealFileSystem
from sessiond.importers import registry
from sessiond.limits import Limits
from sessiond.model.session import content_equal
from sessiond.service import import_tally, imported_session, intake, sources
from sessiond.service.grown_session import Grown
from sessiond.service.sessions import Service
from sessiond.store.port import OutsideChange
from sessiond.store.stored import StoredSession
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

S = "11111111-2222-3333-4444-55555555555"


SHORTENED = Limits(settle_s=0.0, glanced_file_bytes=1, glanced_end_bytes=4000, whole_session_bytes=4000)
"""Large sessions keep only a few messages in memory."""


class Served:
    """A service on a real folder; `restart` is one after a clean end, with the index kept."""

    def __init__(self, path: Path, ledger: str | None = None, limits: Limits | None = None) -> None:
        self._ledger = ledger
        self._limits = limits or Limits()
        self.house = House(RealFileSystem(), str(path), limits=limits)
        self.index = FakeIndex()
        self.service: Service

    async def start(self) -> Served:
        store = (await self.house.open()).store
        self.service = WireService(
            stores={"default": store},
            index=self.index,
            clock=ManualClock(),
            limits=self._limits,
            ledger_path=self._ledger,
        )
        await self.service.start()
        await self.service.catalog.ready.wait()
        return self

    async def restart(self) -> None:
        await self.close()
        await self.start()

    async def shorten(self) -> None:
        """Let go of old messages of all sessions, as if nobody had read them for a while."""
        every = self.service.open_sessions
        for one in list(every._all.values()):
            await one.save()
            for _ in range(2):
                await every.shortening.look(one)

    async def close(self) -> None:
        await self.service.close()
        self.house.journal.close()

    async def bring(self, path: Path, **wanted: Any) -> dict[str, Any]:
        return await self.service.import_(None, str(path), **wanted)

    async def texts(self, session_id: str) -> list[str]:
        return [message["content"] for message in (await self.service.read(session_id))["messages"]]

    def files(self) -> list[str]:
        """Everything in the store's folder, dot-names too, but for the sidecars."""
        return sorted(name for name in os.listdir(self.house.folder) if name != ".sessiond")


@pytest.fixture
async def served(tmp_path: Path) -> Any:
    made = await Served(tmp_path / "home").start()
    yield made
    await made.close()


def record(number: int, session: str = S + "1", **more: Any) -> str:
    role = "user" if number % 2 else "assistant"
    return json.dumps({
        "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": session, "cwd": "/w",
        "version": "1", "gitBranch": "main", "isSidechain": False, "timestamp": f"2026-01-11T14:{number // 60:02d}:{number % 60:02d}.000Z",
        "message": {"role": role, "content": f"text {number}"}, **more,
    }) + "\n"  # fmt: skip


def transcript(folder: Path, numbers: range, session: str = S + "1") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    path.write_text("".join(record(n, session) for n in numbers))
    return path


def wire_id(path: Path) -> str:
    return f"claude-code-{path.stem}"


def never(*_: object, **__: object) -> None:
    raise AssertionError("the file was looked into")


# Again


async def test_an_unchanged_file_is_not_opened_again(served, tmp_path, monkeypatch):
    """Its size and time are enough, also for the next daemon; the session says itself which version it came from."""
    path = transcript(tmp_path / "p", range(1, 4))
    [info] = (await served.bring(path.parent))["sessions"]
    source = info["metadata"]["source"]
    assert (source["tool"], source["path"], source["id"]) == ("claude-code", str(path), path.stem)
    assert source["fingerprint"].endswith(registry.fingerprint(str(path)))
    monkeypatch.setattr(registry, "identify", never)
    for _ in range(2):
        assert await served.bring(path.parent) == {"sessions": [], "skipped": 1, "warnings": []}
        await served.restart()


async def test_a_grown_file_is_as_new_as_its_last_message(served, tmp_path, monkeypatch):
    """What an import learns does not move updatedAt to now; afterwards the file is known in its new version."""
    path = transcript(tmp_path / "p", range(1, 4))
    await served.bring(path)
    with path.open("a") as file:
        file.write(record(4) + json.dumps({"type": "summary", "summary": "A name", "leafUuid": "u4"}) + "\n")
    [info] = (await served.bring(path))["sessions"]
    assert (info["updatedAt"], info["messageCount"], info["name"]) == ("2026-01-11T14:00:04.000Z", 4, "A name")
    await served.restart()
    monkeypatch.setattr(registry, "identify", never)
    assert (await served.bring(path))["skipped"] == 1


async def test_a_session_that_is_here_no_more_comes_again(served, tmp_path):
    """An unchanged file is skipped only while all its sessions are here."""
    path = transcript(tmp_path / "p", range(1, 4))
    await served.bring(path)
    await served.service.delete(wire_id(path))
    [info] = (await served.bring(path))["sessions"]
    assert info["messageCount"] == 3


async def test_messages_that_were_removed_here_come_again(tmp_path):
    """Also those of a file that has not changed: somebody asks for them. And then it is known again."""
    served = await Served(tmp_path / "home", str(tmp_path / "imports.db")).start()
    path = transcript(tmp_path / "p", range(1, 4))
    await served.bring(path)
    await served.service.truncate(None, wire_id(path), 1)
    assert await served.texts(wire_id(path)) == ["text 1"]
    await served.restart()
    await served.bring(path.parent)
    assert await served.texts(wire_id(path)) == ["text 1", "text 2", "text 3"]
    assert (await served.bring(path.parent))["skipped"] == 1
    await served.close()


@pytest.mark.parametrize("at", ["in the midst", "at the end"])
async def test_a_session_that_is_deleted_meanwhile_does_not_stop_the_others(served, tmp_path, monkeypatch, at):
    path, other = transcript(tmp_path / "p", range(1, 4)), tmp_path / "p"
    await served.bring(path)
    with path.open("a") as file:
        file.write(record(4))
    transcript(other, range(1, 3), S + "2")
    name = "take" if at == "in the midst" else "finish"
    real = getattr(Grown, name)

    def deleted_first(one: Grown, *arguments: Any) -> Any:
        one._held.one.vanished()
        return real(one, *arguments)

    monkeypatch.setattr(Grown, name, deleted_first)
    done = await served.bring(tmp_path / "p")
    assert [one["sessionId"] for one in done["sessions"]] == [f"claude-code-{S}2"]
    [warning] = done["warnings"]
    assert warning["message"] == f"claude-code-{S}1 cannot be imported: it was deleted meanwhile"


async def test_a_file_of_several_sessions_is_known_when_the_last_is_stored(served, tmp_path):
    """Only one session of it has the mark: if the import ends before, the file is read again."""
    path = tmp_path / ".aider.chat.history.md"
    chats = [
        f"# aider chat started at 2025-03-04 05:06:0{n}\n\n#### question {n}  \n\nanswer {n}\n\n" for n in range(4)
    ]
    path.write_text("\n" + "".join(chats))
    result = await served.bring(path)
    marks = ["fingerprint" in info["metadata"]["source"] for info in result["sessions"]]
    assert sorted(marks) == [False, False, False, True]
    assert (await served.bring(path))["skipped"] == 4


# In parts


async def test_a_session_in_parts_is_the_same_as_in_one(served, tmp_path, monkeypatch):
    """Every field, every message in the index, and nothing of the parts is left; the next life reads it too."""
    path = transcript(tmp_path / "p", range(1, 40))
    await served.bring(path)
    whole = (await served.house.store.load(wire_id(path))).session
    indexed = served.index.messages[wire_id(path)]
    assert len(indexed) == 39
    other = await Served(tmp_path / "other").start()
    monkeypatch.setattr(imported_session, "PART_MESSAGES", 7)
    [info] = (await other.bring(path))["sessions"]
    assert (info["messageCount"], info["updatedAt"], info["seq"]) == (39, whole.updated_at, whole.seq)
    assert other.index.messages[wire_id(path)] == indexed
    assert other.index.infos[wire_id(path)].fingerprint
    assert other.index.infos[wire_id(path)].message_count == 39
    assert other.files() == [f"{wire_id(path)}.jsonl"]
    await other.restart()
    loaded = await other.house.store.load(wire_id(path))
    assert content_equal(loaded.session, whole)
    assert loaded.warnings == []
    with path.open("a") as file:
        file.writelines(record(n) for n in range(40, 60))
    [info] = (await other.bring(path))["sessions"]
    assert info["messageCount"] == 59
    assert await other.texts(info["sessionId"]) == [f"text {n}" for n in range(1, 60)]
    await other.service.close()


async def test_what_a_killed_import_left_is_tidied_away(served, tmp_path):
    """A half-written session has no name of its own, is not a session, and goes at the next start."""
    parts = served.house.store.receive("half", "2026-01-11T14:30:22.000Z")
    await parts.add([])
    assert len(served.files()) == 1
    assert (await served.service.list())["sessions"] == []
    await served.restart()
    assert served.files() == []


# Cancelled


class Stopper:
    """Cancels the import at the nth sign of progress."""

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.task: asyncio.Task[Any] | None = None

    def __call__(self, _value: object) -> None:
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()


@pytest.mark.parametrize("nth", [1, 2, 4, 7])
async def test_a_cancelled_import_leaves_whole_sessions(served, tmp_path, monkeypatch, nth):
    """Wherever it stops: what is here is complete and in the index, and the next import brings the rest."""
    monkeypatch.setattr("sessiond.importers.reading._EVENTS", 5)
    monkeypatch.setattr(imported_session, "PART_MESSAGES", 7)
    for n in range(3):
        transcript(tmp_path / "p", range(1, 20), f"{S}{n}")
    stopper = Stopper(nth)
    stopper.task = asyncio.create_task(served.bring(tmp_path / "p", progress=stopper))
    with pytest.raises(asyncio.CancelledError):
        await stopper.task
    here = served.files()
    assert len(here) < 3
    assert not any(name.startswith(".") for name in here)
    for name in here:
        local_id = name.removesuffix(".jsonl")
        assert len(await served.texts(local_id)) == 19
        assert len(served.index.messages[local_id]) == 19
    result = await served.bring(tmp_path / "p")
    assert len(result["sessions"]) == 3 - len(here)
    assert len(served.files()) == 3


# Dry runs


async def test_a_dry_run_tells_what_the_run_then_does(served, tmp_path):
    """Also of sessions that two files share, that have grown, or that are not new."""
    grown = transcript(tmp_path / "p" / "a", range(1, 4), S + "1")
    transcript(tmp_path / "p" / "a", range(1, 4), S + "2")
    await served.bring(tmp_path / "p")
    with grown.open("a") as file:
        file.write(record(4))
    transcript(tmp_path / "p" / "b", range(1, 7), S + "3")
    transcript(tmp_path / "p" / "c", range(4, 9), S + "3")
    before = served.files()
    told = await served.bring(tmp_path / "p", dry_run=True)
    assert served.files() == before
    assert await served.texts(wire_id(grown)) == ["text 1", "text 2", "text 3"]
    done = await served.bring(tmp_path / "p")

    def shown(result: dict[str, Any]) -> list[tuple[Any, ...]]:
        keys = ("sessionId", "messageCount", "updatedAt", "createdAt", "name", "cwd", "parent")
        return sorted(tuple(map(info.get, keys)) for info in result["sessions"])

    assert shown(told) == shown(done)
    assert told["skipped"] == done["skipped"] == 1
    assert [info[1] for info in shown(done)] == [4, 8]


async def test_since_leaves_out_what_was_quiet(served, tmp_path):
    """Sessions whose last message is older, by file or by message; files that were not opened are counted. Without it
    they come."""
    transcript(tmp_path / "p", range(1, 4), S + "1")
    late = transcript(tmp_path / "p", range(1, 100), S + "2")
    old = transcript(tmp_path / "p", range(1, 100), S + "3")
    os.utime(old, (0, 0))
    for dry_run in (True, False):
        result = await served.bring(tmp_path / "p", since="2026-01-11T14:01:00Z", dry_run=dry_run)
        assert [info["sessionId"] for info in result["sessions"]] == [wire_id(late)]
        assert result["untouched"] == 1, "the file that was not opened is counted"
    assert len((await served.bring(tmp_path / "p"))["sessions"]) == 2
    assert sources.changed_at(str(old)) == "1970-01-01T00:00:00.000Z"
    Path(f"{old}-wal").write_bytes(b"")  # a database is as new as its log
    assert sources.changed_at(str(old)) > "1971"


# Others


async def test_a_session_that_is_open_grows_before_everybodys_eyes(served, tmp_path):
    """Clients that have it open are told once, and it remains open for them."""
    path = transcript(tmp_path / "p", range(1, 4))
    await served.bring(path)
    peer = FakePeer()
    await served.service.open(peer, wire_id(path))
    await served.service.append(FakePeer(), wire_id(path), [user("here")])
    with path.open("a") as file:
        file.write(record(4) + record(5))
    [info] = (await served.bring(path))["sessions"]
    assert info["attached"] == 1
    changed = peer.take("session/changed")
    appended = [m["content"] for p in changed for c in p["changes"] if c["kind"] == "appended" for m in c["messages"]]
    assert appended == ["here", "text 4", "text 5"]
    assert served.service.open_sessions.peek(wire_id(path)) is not None


async def test_imported_sessions_do_not_stay_in_memory(served, tmp_path):
    """Neither new nor grown ones; only what somebody has open."""
    for n in range(3):
        transcript(tmp_path / "p", range(1, 4), f"{S}{n}")
    await served.bring(tmp_path / "p")
    for n in range(3):
        transcript(tmp_path / "p", range(1, 6), f"{S}{n}")
    assert len((await served.bring(tmp_path / "p"))["sessions"]) == 3
    assert served.service.open_sessions._all == {}


async def test_a_source_that_grows_while_it_is_read_is_read_again(served, tmp_path, monkeypatch):
    """The version that is remembered is the one from before: what came meanwhile is not missed."""
    monkeypatch.setattr("sessiond.importers.reading._EVENTS", 5)
    path = transcript(tmp_path / "p", range(1, 40))
    more: Iterator[int] = iter(range(40, 60))

    def grow(_value: object) -> None:
        with path.open("a") as file:
            file.writelines(record(n) for n in [next(more, 0)] if n)

    await served.bring(path, progress=grow)
    await served.bring(path)
    numbers = [int(text.split()[1]) for text in await served.texts(wire_id(path))]
    assert numbers == list(range(1, path.read_bytes().count(b"\n") + 1))


async def test_parents_are_ids_of_the_same_store(tmp_path):
    """A subagent's parent is named as the wire names it, in whichever store it is."""
    house, mine = House(RealFileSystem(), str(tmp_path / "a")), House(RealFileSystem(), str(tmp_path / "b"))
    stores = {"default": (await house.open()).store, "mine": (await mine.open()).store}
    stores["mine"].name = "mine"
    service = WireService(stores=stores, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    folder = tmp_path / "p"
    transcript(folder, range(1, 3))
    (folder / "agent-x.jsonl").write_text(record(7, isSidechain=True))
    for store, prefix in (("default", ""), ("mine", "mine/")):
        result = await service.import_(None, str(folder), store=store)
        parents = {info["sessionId"]: info["parent"] for info in result["sessions"]}
        parent = {"sessionId": f"{prefix}claude-code-{S}1", "seq": None}
        assert parents == {f"{prefix}claude-code-{S}1": None, f"{prefix}claude-code-agent-x": parent}
    await service.close()


async def test_a_summary_names_a_session_that_comes_later(served, tmp_path):
    """The file that holds the summary is read before the one that it tells of."""
    folder = tmp_path / "p"
    path = transcript(folder, range(1, 4), S + "9")
    (folder / f"{S}1.jsonl").write_text(
        json.dumps({"type": "summary", "summary": "About the later one", "leafUuid": "u3"}) + "\n" + record(50, S + "1")
    )
    result = await served.bring(folder)
    names = {info["sessionId"]: info["name"] for info in result["sessions"]}
    assert names[wire_id(path)] == "About the later one"


# What is wrong


async def test_a_failure_in_one_file_does_not_stop_the_others(served, tmp_path, monkeypatch):
    """What was read before the error is kept, the reason is reported, and the file is read again next time."""
    good = transcript(tmp_path / "p", range(1, 4), S + "1")
    bad = transcript(tmp_path / "p", range(1, 4), S + "0")
    real = registry.BY_NAME["claude-code"]

    class Breaking:
        name, experimental, recognise = real.name, False, real.recognise

        def read(self, path: str, open_: Any) -> Any:
            for number, event in enumerate(real.read(path, open_)):
                if path == str(bad) and number == 3:
                    raise broken[-1]
                yield event

    monkeypatch.setitem(registry.BY_NAME, "claude-code", Breaking())
    broken: list[Exception] = []
    for error, reason in ((OSError(5, "Input/output error"), "Input/output error"), (KeyError("x"), "KeyError('x')")):
        broken.append(error)
        result = await served.bring(tmp_path / "p")
        [warning] = result["warnings"]
        assert (warning["path"], warning["line"]) == (str(bad), None)
        assert reason in warning["message"]
    assert await served.texts(wire_id(bad)) == ["text 1", "text 2"]
    assert await served.texts(wire_id(good)) == ["text 1", "text 2", "text 3"]
    monkeypatch.setitem(registry.BY_NAME, "claude-code", real)
    assert [info["messageCount"] for info in (await served.bring(bad))["sessions"]] == [3]


async def test_an_unreadable_session_here_is_left_alone(served, tmp_path):
    """It cannot grow and is never written over; that is reported, and the others come."""
    paths = [transcript(tmp_path / "p", range(1, 4), f"{S}{n}") for n in range(2)]
    spoilt = Path(served.house.folder) / f"{wire_id(paths[0])}.jsonl"
    spoilt.write_bytes(b"\x00no session at all\n")
    result = await served.bring(tmp_path / "p")
    assert [info["sessionId"] for info in result["sessions"]] == [wire_id(paths[1])]
    [warning] = result["warnings"]
    assert warning["path"] == str(paths[0])
    assert spoilt.read_bytes() == b"\x00no session at all\n"


async def test_a_full_disk_ends_the_import_and_leaves_nothing_half(served, tmp_path, monkeypatch):
    """It is reported as readOnly; what came in before is whole, and the rest comes when there is room."""
    monkeypatch.setattr(imported_session, "PART_MESSAGES", 7)
    for n in range(3):
        transcript(tmp_path / "p", range(1, 20), f"{S}{n}")
    real, written = served.house.fs.append, []

    def nearly_full(path: str, data: bytes, mode: int = 0o600) -> Any:
        written.append(path)
        if len(written) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data, mode)

    monkeypatch.setattr(served.house.fs, "append", nearly_full)
    with pytest.raises(ReadOnly):
        await served.bring(tmp_path / "p")
    for name in served.files():
        assert len(await served.texts(name.removesuffix(".jsonl"))) == 19
    monkeypatch.setattr(served.house.fs, "append", real)
    assert (await served.bring(tmp_path / "p"))["sessions"]
    assert len(served.files()) == 3


async def test_a_file_that_somebody_writes_all_the_time_is_saved_later(served, tmp_path, monkeypatch):
    """The import's messages for that session are still durable, and the import continues."""
    path = transcript(tmp_path / "p", range(1, 4))
    await served.bring(path)
    transcript(tmp_path / "p", range(1, 6))

    def restless(*_: object) -> None:
        raise OutsideChange("x")

    with monkeypatch.context() as patched:
        patched.setattr(StoredSession, "_write", restless)
        [info] = (await served.bring(path))["sessions"]
        assert info["messageCount"] == 5
        assert served.service.open_sessions.is_dirty(wire_id(path))
        with pytest.raises(Unavailable):
            await served.service.save(wire_id(path))
    assert (await served.service.save(wire_id(path)))[0]["bytes"] > 0
    assert not served.service.open_sessions.is_dirty(wire_id(path))


async def test_two_imports_at_once_bring_everything_once(served, tmp_path):
    """The second import finds the session there; none is broken, no message appears twice."""
    for n in range(6):
        transcript(tmp_path / "p", range(1, 20), f"{S}{n}")
    results = await asyncio.gather(*(served.bring(tmp_path / "p") for _ in range(3)))
    assert [result["warnings"] for result in results] == [[], [], []]
    made = [info["sessionId"] for result in results for info in result["sessions"]]
    assert sorted(made) == [f"claude-code-{S}{n}" for n in range(6)]
    for session_id in made:
        assert await served.texts(session_id) == [f"text {n}" for n in range(1, 20)]


async def test_two_files_of_one_session_at_once_bring_the_words_of_both(served, tmp_path):
    """A tool that resumes a session may write another file for it. Whichever import is the quicker one, nothing has to be imported
    again, and both files are known as read to their end.
    """
    for number in range(6):
        session = f"{S}{number}"
        long = transcript(tmp_path / f"long {number}", range(1, 30), session)
        short = transcript(tmp_path / f"short {number}", range(1, 2), session)
        await asyncio.gather(*(served.bring(path) for path in ((short, long) if number % 2 else (long, short))))
        assert await served.texts(wire_id(long)) == [f"text {n}" for n in range(1, 30)]
        for path in (short, long):
            assert (await served.bring(path))["skipped"] == 1


async def test_more_warnings_than_are_listed_are_counted(served, tmp_path, monkeypatch):
    """No skipped line is forgotten silently."""
    monkeypatch.setattr(import_tally, "_MAX_WARNINGS", 3)
    path = transcript(tmp_path / "p", range(1, 3))
    with path.open("a") as file:
        file.write("{no json\n" * 8)
    messages = [warning["message"] for warning in (await served.bring(path))["warnings"]]
    assert len(messages) == 4
    assert messages[-1].startswith("5 more")


async def test_a_file_without_a_conversation_says_what_it_has(served, tmp_path):
    """A file that was named says why nothing came of it; in a folder such files are usual, and say nothing."""
    path = tmp_path / "p" / f"{S}.jsonl"
    path.parent.mkdir()
    path.write_text('{"type":"file-history-snapshot","messageId":"m"}\n' * 2)
    result = await served.bring(path)
    assert [one["message"] for one in result["warnings"]] == [
        "is a claude-code file, but no conversation was found in it (2 file-history-snapshot)"
    ]
    assert (await served.bring(path.parent))["warnings"] == []


async def test_what_is_told_of_a_folder(served, tmp_path, monkeypatch):
    """An unknown format is refused; from a folder with too many files the first are taken and the rest is reported; the
    caller gets progress.
    """
    with pytest.raises(InvalidParams, match="format: expected one of claude-code"):
        await served.bring(tmp_path, format="docx")
    for n in range(5):
        transcript(tmp_path / "p", range(1, 3), f"{S}{n}")
    monkeypatch.setattr(registry, "MAX_FILES", 3)
    monkeypatch.setattr(intake, "_LOOKED_AT", 2)
    heard: list[Any] = []
    result = await served.service.import_(None, str(tmp_path / "p"), progress=heard.append)
    assert len(result["sessions"]) == 3
    assert ["more than 3 files" in one["message"] for one in result["warnings"]] == [True]
    assert {2, 4} <= {one["files"] for one in heard}


async def test_a_summary_of_a_session_that_has_a_name_or_is_not_here(served, tmp_path):
    """A person's name stays, and nobody is made up."""
    folder = tmp_path / "p"
    path = transcript(folder, range(1, 4), S + "9")
    await served.bring(path)
    await served.service.update(None, wire_id(path), {"name": "Mine"})
    transcript(tmp_path / "q", range(10, 12), S + "8")
    summaries = [{"type": "summary", "summary": "Theirs", "leafUuid": leaf} for leaf in ("u3", "u11")]
    other = folder / f"{S}1.jsonl"
    (folder / f"{S}8.jsonl").write_text((tmp_path / "q" / f"{S}8.jsonl").read_text())
    other.write_text("".join(json.dumps(one) + "\n" for one in summaries) + record(50, S + "1"))
    await served.bring(other)
    assert (await served.service.open(FakePeer(), wire_id(path)))["session"]["name"] == "Mine"
    assert not await served.house.store.exists(f"claude-code-{S}8")


async def test_a_session_whose_parts_end_with_its_last_message(served, tmp_path, monkeypatch):
    """Nothing is left over for the end, and all of it is there."""
    monkeypatch.setattr(imported_session, "PART_MESSAGES", 3)
    path = transcript(tmp_path / "p", range(1, 7))
    [info] = (await served.bring(path))["sessions"]
    assert info["messageCount"] == 6
    assert await served.texts(wire_id(path)) == [f"text {n}" for n in range(1, 7)]


async def test_a_store_that_takes_sessions_whole_only(tmp_path, monkeypatch):
    """What arrives in parts is gathered, and stored once."""
    monkeypatch.setattr(imported_session, "PART_MESSAGES", 3)
    store = MemoryStore()
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    path = transcript(tmp_path / "p", range(1, 9))
    [info] = (await service.import_(None, str(path)))["sessions"]
    assert info["messageCount"] == len(store.sessions[wire_id(path)]) == 8
    await service.close()
