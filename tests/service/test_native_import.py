"""service/native.py: importing what lies in a format of ours, a file or a folder of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessiond.service import native
from sessiond.service.sessions import Service
from tests.fakes.peer import FakePeer, user
from tests.service.test_import import serving

NOW = "2026-01-11T14:30:22.000Z"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    made, _ = await serving(tmp_path / "home")
    yield made
    await made.close()


def exported(path: Path, local_id: str | None, texts: list[str]) -> Path:
    header = {"sessiond": 1, "createdAt": NOW} | ({} if local_id is None else {"id": local_id})
    said = [
        {"id": f"m{n}", "seq": n, "role": "user", "content": text, "timestamp": NOW} for n, text in enumerate(texts, 1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in [header, *said]))
    return path


async def words(service: Service, session_id: str) -> list[str]:
    return [str(one["content"]) for one in (await service.read(session_id))["messages"]]


async def test_a_folder_brings_every_session_and_tells_what_is_none(service: Service, tmp_path: Path) -> None:
    """Also one that cannot be read to the end costs the others nothing."""
    folder = tmp_path / "theirs"
    exported(folder / "a.jsonl", "a", ["one"])
    with exported(folder / "b.jsonl", "b", ["two", "three"]).open("a") as file:
        file.write("no json\n")
    (folder / "nuls.jsonl").write_bytes(b"\0" * 50)
    result = await service.import_(None, str(folder), format="jsonl")
    assert sorted((str(one["sessionId"]), one["messageCount"]) for one in result["sessions"]) == [("a", 1), ("b", 2)]
    told = {(one["path"], one.get("line")) for one in result["warnings"]}
    assert (str(folder / "b.jsonl"), 4) in told
    assert str(folder / "nuls.jsonl") in {path for path, _ in told}


async def test_a_folder_without_a_session_is_told(service: Service, tmp_path: Path) -> None:
    """Of the format that was asked for."""
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    result = await service.import_(None, str(tmp_path / "empty"), format="jsonl")
    assert result["sessions"] == []
    assert [one["message"] for one in result["warnings"]] == ["holds no jsonl session"]


async def test_a_session_that_is_there_gets_what_it_lacks(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts that the journal takes; a dry run tells the same count and changes nothing; a second time brings nothing."""
    monkeypatch.setattr(native, "_PORTION_BYTES", 200)
    path = exported(tmp_path / "export", "a", ["one"])
    await service.import_(None, str(path), format="jsonl")
    peer = FakePeer()
    await service.open(peer, "a")
    exported(path, "a", ["one", "two " * 30, "three " * 30, "four"])
    dry = await service.import_(None, str(path), format="jsonl", dry_run=True)
    assert [one["messageCount"] for one in dry["sessions"]] == [4]
    assert await words(service, "a") == ["one"]
    done = await service.import_(None, str(path), format="jsonl")
    assert [one["messageCount"] for one in done["sessions"]] == [4]
    assert await words(service, "a") == ["one", "two " * 30, "three " * 30, "four"]
    again = await service.import_(None, str(path), format="jsonl")
    assert (again["sessions"], again["skipped"]) == ([], 1)
    await service.append(peer, "a", [user("five")])


async def test_whose_session_it_is(service: Service, tmp_path: Path) -> None:
    """The header's id counts, else the file's name; without either, or with a header that is no object, it is told."""
    named = exported(tmp_path / "from-name.jsonl", None, ["one"])
    result = await service.import_(None, str(named), format="jsonl")
    assert [one["sessionId"] for one in result["sessions"]] == ["from-name"]
    for first in ("[1]", "[" * 5000, "{broken"):
        nameless = tmp_path / "no session's name"
        nameless.write_text(first + "\n")
        result = await service.import_(None, str(nameless), format="jsonl")
        assert result["sessions"] == []
        assert [one["message"] for one in result["warnings"]] == ["neither its header nor its name is a session id"]


async def test_a_file_that_goes_before_it_is_read(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with the operating system's words, and the import goes on."""
    path = exported(tmp_path / "a.jsonl", "a", ["one"])

    def gone(path: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(native, "_read", gone)
    result = await service.import_(None, str(path), format="jsonl")
    assert [one["message"] for one in result["warnings"]] == ["cannot be read: No such file or directory"]
