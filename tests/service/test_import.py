"""Importing into a real store: whole sessions, no duplicates, growth; and out again by the native export."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.session import Session, content_equal
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

CORPUS = Path(os.environ.get("SESSIOND_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


async def serving(path: Path) -> tuple[Service, House]:
    house = House(RealFileSystem(), str(path))
    store = (await house.open()).store
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    return service, house


def record(number: int, session: str = "11111111-2222-3333-4444-555555555555") -> str:
    role = "user" if number % 2 else "assistant"
    return json.dumps({
        "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": session, "cwd": "/w",
        "version": "1", "gitBranch": "main", "isSidechain": False, "timestamp": f"2026-01-11T14:30:{number:02d}.000Z",
        "message": {"role": role, "content": f"text {number}"},
    })  # fmt: skip


@pytest.fixture
def transcript(tmp_path) -> Path:
    folder = tmp_path / "projects" / "-w"
    folder.mkdir(parents=True)
    path = folder / "11111111-2222-3333-4444-555555555555.jsonl"
    path.write_text("".join(record(n) + "\n" for n in range(1, 5)))
    return path


async def test_a_second_import_brings_nothing_and_growth_only_what_is_new(tmp_path, transcript):
    """No doubles when repeated; a transcript that has grown grows its session."""
    service, _ = await serving(tmp_path / "home")
    first = await service.import_(None, str(transcript.parent.parent))
    [info] = first["sessions"]
    assert (info["messageCount"], info["cwd"], first["skipped"]) == (4, "/w", 0)
    second = await service.import_(None, str(transcript.parent.parent))
    assert (second["sessions"], second["skipped"]) == ([], 1)
    with transcript.open("a") as file:
        file.write(record(5) + "\n" + '{"type": "user", "uuid": "cut off in the mid')
    third = await service.import_(None, str(transcript.parent.parent))
    [info] = third["sessions"]
    assert info["messageCount"] == 5
    [warning] = third["warnings"]
    assert (warning["path"], warning["line"]) == (str(transcript), 6)
    page = await service.read(info["sessionId"])
    assert [m["content"] for m in page["messages"]] == [f"text {n}" for n in range(1, 6)]
    await service.close()


async def test_a_dry_run_changes_nothing(tmp_path, transcript):
    """It tells what would be, and no file is made."""
    service, house = await serving(tmp_path / "home")
    told = await service.import_(None, str(transcript), dry_run=True)
    assert [info["messageCount"] for info in told["sessions"]] == [4]
    assert [name for name in os.listdir(house.folder) if not name.startswith(".")] == []
    await service.close()


async def test_an_imported_session_is_carried_on(tmp_path, transcript):
    """Messages added here remain when the import is repeated."""
    service, _ = await serving(tmp_path / "home")
    [info] = (await service.import_(None, str(transcript)))["sessions"]
    await service.append(FakePeer(), info["sessionId"], [user("here")])
    again = await service.import_(None, str(transcript))
    assert again["sessions"] == []
    page = await service.read(info["sessionId"])
    assert [m["content"] for m in page["messages"]][-1] == "here"
    await service.close()


@pytest.mark.parametrize("form", ["jsonl", "json"])
async def test_an_export_of_everything_and_import_elsewhere_give_the_same_session(tmp_path, form):
    """Every field: names, tags, parent, summary, archived, state, notes, streamed replies, one that still streams, seqs."""
    service, _ = await serving(tmp_path / "one")
    peer = FakePeer()
    await service.new(peer, session_id="a", name="N", model="m", cwd="/w", tags=["x"], metadata={"class": None})
    await service.append(
        peer, "a", [user("hi\u2028", thread="t", tick=3, contextSnapshot=None, odd={"jsonrpc": "2.0"})]
    )
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    await service.extend(peer, "a", "r", "llo")
    await service.finish(peer, "a", "r", tool_calls=[{"id": "c", "name": "n", "arguments": {"a": 1}}])
    await service.note_append(peer, "a", "H", "c", thread="t", tick=1)
    await service.state_set(peer, "a", {"plan": [1, None]})
    fork = str((await service.fork(peer, "a"))["sessionId"])
    await service.update(peer, fork, {"summary": "S", "archived": True})
    await service.append(peer, fork, [{"id": "half", "role": "assistant", "content": "Hal", "status": "streaming"}])
    target = tmp_path / f"out.{form}"
    exported = await service.export(fork, form, str(target))
    assert exported == {"path": str(target), "bytes": target.stat().st_size}
    session = await service.open_sessions.at(fork).look(Session.snapshot, whole=True)
    assert (session.parent, session.summary, session.archived) == ({"sessionId": "a", "seq": 6}, "S", True)
    assert [one.id for one in session.streaming()] == ["half"]
    await service.close()
    other, elsewhere = await serving(tmp_path / "two")
    result = await other.import_(None, str(target))
    assert (result["sessions"][0]["sessionId"], result["warnings"]) == (fork, [])
    assert content_equal((await elsewhere.store.load(fork)).session, session)
    assert (await other.import_(None, str(target)))["skipped"] == 1
    await other.close()


async def test_real_claude_code_transcripts_come_in_whole(tmp_path):
    """As many messages as the files hold records of people, models and tools; counted here without the importer."""
    folder = CORPUS / "claude-code"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    expected = 0
    for path in folder.glob("*.jsonl"):
        expected += sum(
            1 for line in path.read_bytes().split(b"\n") if line and json.loads(line)["type"] in ("user", "assistant")
        )
    service, _ = await serving(tmp_path / "home")
    result = await service.import_(None, str(folder))
    assert result["warnings"] == []
    assert len(result["sessions"]) == len(list(folder.glob("*.jsonl")))
    assert sum(info["messageCount"] for info in result["sessions"]) == expected
    assert all(info["createdAt"] < "2026" for info in result["sessions"])
    await service.close()
