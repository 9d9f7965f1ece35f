"""service/native_import.py: importing a file or a folder of files in our own formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sessiond.exporters import export
from sessiond.importers.reading import Counter
from sessiond.importers.record import open_source
from sessiond.importers.sections import sections
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.service import native_import
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
    assert [one["message"] for one in result["warnings"]] == ["contains no jsonl sessions"]


async def test_a_session_that_is_there_gets_what_it_lacks(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts that the journal takes; a dry run tells the same count and changes nothing; a second time brings nothing."""
    monkeypatch.setattr(native_import, "_PORTION_BYTES", 200)
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
    """The header's id counts, else the file's name; without either, or with a header that is not an object, it is told."""
    named = exported(tmp_path / "from-name.jsonl", None, ["one"])
    result = await service.import_(None, str(named), format="jsonl")
    assert [one["sessionId"] for one in result["sessions"]] == ["from-name"]
    for first in ("[1]", "[" * 5000, "{broken"):
        nameless = tmp_path / "no session's name"
        nameless.write_text(first + "\n")
        result = await service.import_(None, str(nameless), format="jsonl")
        assert result["sessions"] == []
        assert [one["message"] for one in result["warnings"]] == ["neither its header nor its name is a session id"]


def document(path: Path, edit: Callable[[dict[str, Any]], None] = lambda _: None, indent: int | None = None) -> Path:
    session = Session("told", NOW)
    session.update({"name": "N", "tags": ["x"]})
    for n in range(1, 4):
        session.add_message(Message(id=f"m{n}", seq=n, role="user", content=f"text {n}", timestamp=NOW))
    session.add_note(Note(thread=None, tick=None, id="n", seq=4, heading="H", content="c", timestamp=NOW))
    session.state = {"plan": [1]}
    value = json.loads("".join(export(session, session.messages(), "json")))
    edit(value)
    path.write_text(json.dumps(value, indent=indent))
    return path


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_json_export_that_was_cut_off_brings_what_is_whole(
    service: Service, tmp_path: Path, indent: int | None
) -> None:
    """The line of the cut is reported; the whole document brings the rest later."""
    path = document(tmp_path / "x.json", indent=indent)
    whole = path.read_text()
    cut = whole[: whole.index("text 3")]
    path.write_text(cut)
    result = await service.import_(None, str(tmp_path))
    assert [one["sessionId"] for one in result["sessions"]] == ["told"]
    assert await words(service, "told") == ["text 1", "text 2"]
    line = cut[: cut.rindex("{") + 1].count("\n") + 1
    assert [(one["path"], one["line"], one["message"]) for one in result["warnings"]] == [
        (str(path), line, "cut off in the middle")
    ]
    path.write_text(whole)
    await service.import_(None, str(path))
    assert await words(service, "told") == ["text 1", "text 2", "text 3"]


async def test_what_is_wrong_in_a_json_export_is_told_with_its_line(service: Service, tmp_path: Path) -> None:
    """Only the faulty item is lost: a message without content, an invalid note, a member of an unknown name."""

    def spoil(value: dict[str, Any]) -> None:
        value["messages"][1].pop("content")
        value["notes"].append(5)
        value["more"] = 1

    path = document(tmp_path / "x.json", spoil, indent=1)
    result = await service.import_(None, str(path))
    assert await words(service, "told") == ["text 1", "text 3"]
    lines = path.read_text().split("\n")
    told = {one["line"]: one["message"] for one in result["warnings"]}
    second = lines.index('   "id": "m2",')  # the line below the one on which it begins, from 0
    assert set(told) == {second, lines.index("  5") + 1, lines.index(' "more": 1') + 1}
    assert "content" in told[second]


async def test_a_json_export_must_name_a_session(service: Service, tmp_path: Path) -> None:
    """An invalid id is reported, and nothing is created."""

    def rename(value: dict[str, Any]) -> None:
        value["session"]["sessionId"] = "../x"

    result = await service.import_(None, str(document(tmp_path / "x.json", rename)))
    assert result["sessions"] == []
    assert [one["message"] for one in result["warnings"]] == ["its session names no session id"]


async def test_a_file_that_goes_before_it_is_read(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported with the operating system's words, and the import continues."""
    path = exported(tmp_path / "a.jsonl", "a", ["one"])

    def gone(path: str, size: int = -1) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(native_import, "_read", gone)
    result = await service.import_(None, str(path), format="jsonl")
    assert [one["message"] for one in result["warnings"]] == ["cannot be read: No such file or directory"]


def several(path: Path, *ids: str | None) -> Path:
    """Exports one after another, as a shell's `>>` makes it."""
    one = path.with_name("part")
    whole = b"".join(exported(one, local_id, [f"of {local_id}", "more"]).read_bytes() for local_id in ids)
    one.unlink()
    path.write_bytes(whole)
    return path


async def test_each_header_in_a_file_begins_a_session(service: Service, tmp_path: Path) -> None:
    """A fault in one of them affects only that one, and is reported with its line in the file."""
    path = several(tmp_path / "all.jsonl", "a", "b", None, "c")
    lines = path.read_bytes().split(b"\n")
    lines[4] = b"no json"
    path.write_bytes(b"\n".join(lines))
    result = await service.import_(None, str(path))
    assert [(one["sessionId"], one["messageCount"]) for one in result["sessions"]] == [("a", 2), ("b", 1), ("c", 2)]
    told = [(one["line"], one["message"]) for one in result["warnings"]]
    assert told == [(5, "is not valid JSON"), (7, "its header names no session id")]
    assert await words(service, "a") == ["of a", "more"]
    assert await words(service, "c") == ["of c", "more"]
    again = await service.import_(None, str(path))
    assert (again["sessions"], again["skipped"]) == ([], 3)


async def test_a_file_of_several_in_a_folder_of_ours_is_several(service: Service, tmp_path: Path) -> None:
    """Also where the format was named and the others are a store's files."""
    exported(tmp_path / "theirs" / "z.jsonl", "z", ["one"])
    several(tmp_path / "theirs" / "all.jsonl", "a", "b")
    result = await service.import_(None, str(tmp_path / "theirs"), format="jsonl")
    assert sorted(one["sessionId"] for one in result["sessions"]) == ["a", "b", "z"]
    assert result["warnings"] == []


def test_a_header_said_twice_goes_on_with_its_session(tmp_path: Path) -> None:
    """It has the same id; a message or a text about headers is not a header."""
    path = several(tmp_path / "all.jsonl", "a", "a", "b")
    with path.open("a") as file:
        file.write(json.dumps({"role": "user", "content": '{"sessiond":1}', "sessiond": 1, "id": "c"}) + "\n")
    found = list(sections(str(path), open_source))
    assert [(one.local_id, one.line, one.content.count(b"\n")) for one in found] == [("a", 1, 6), ("b", 7, 4)]
    assert b"".join(one.content for one in found) == path.read_bytes()


def test_a_header_without_a_line_end_before_it_begins_a_session(tmp_path: Path) -> None:
    """Files that were put together although the first ones lack their last line end are as many sessions as there are headers."""
    texts = [exported(tmp_path / "x", local_id, ["words"]).read_bytes().rstrip(b"\n") for local_id in ("a", "b", "c")]
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(texts))
    found = list(sections(str(path), open_source))
    assert [one.local_id for one in found] == ["a", "b", "c"]
    assert [one.content.rstrip(b"\n") for one in found] == texts


def test_only_one_session_of_a_file_is_in_memory(tmp_path: Path) -> None:
    """The second half of the file is not read before somebody asks for it."""
    path = tmp_path / "all.jsonl"
    path.write_bytes(
        b"".join(exported(tmp_path / "x", local_id, ["word " * 100_000]).read_bytes() for local_id in ("a", "b"))
    )
    counter = Counter()
    found = sections(str(path), counter.open)
    assert next(found).local_id == "a"
    assert counter.bytes < path.stat().st_size * 0.7
    assert [one.local_id for one in found] == ["b"]
    assert counter.bytes == path.stat().st_size


@pytest.mark.parametrize("join", ["\n".join, lambda texts: f"[\n{','.join(texts)}\n]\n"])
async def test_json_exports_in_an_array_or_one_after_the_other(
    service: Service, tmp_path: Path, join: Callable[[list[str]], str]
) -> None:
    """All come in; what is not a session among them, and a cut in the last one, are reported with their lines."""

    def renamed(name: str) -> str:
        return document(tmp_path / "one", lambda value: value["session"].update(sessionId=name)).read_text()

    path = tmp_path / "all.json"
    whole = join([renamed("a"), renamed("b"), renamed("c")])
    path.write_text(whole[: whole.rindex("text 3")])
    result = await service.import_(None, str(path))
    assert [(one["sessionId"], one["messageCount"]) for one in result["sessions"]] == [("a", 3), ("b", 3), ("c", 2)]
    assert [one["message"] for one in result["warnings"]] == ["cut off in the middle"]
    path.write_text(join([renamed("a"), "5" if whole.startswith("[") else "{}", renamed("d")]))
    result = await service.import_(None, str(path))
    assert ([one["sessionId"] for one in result["sessions"]], result["skipped"]) == (["d"], 1)
    wrong = ("not an object", 2) if whole.startswith("[") else ("its session names no session id", 2)
    assert [(one["message"], one["line"]) for one in result["warnings"]] == [wrong]
    path.write_text(join([renamed("a"), "no json", renamed("e")]))
    result = await service.import_(None, str(path))
    assert {one["message"].partition(":")[0] for one in result["warnings"]} == {"not valid JSON"}
    # In an array nobody can tell where the next element begins.
    assert [one["sessionId"] for one in result["sessions"]] == ([] if whole.startswith("[") else ["e"])


async def test_what_the_store_meets_is_not_said_of_the_file(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose second half cannot be read gives its first and the reason; a full disk ends the import."""
    path = several(tmp_path / "all.jsonl", "a", "b")

    def breaks(path: str, open_: Any) -> Iterator[Any]:
        yield from islice(sections(path, open_), 1)
        raise OSError(5, "Input/output error", path)

    with monkeypatch.context() as patched:
        patched.setattr(native_import, "sections", breaks)
        result = await service.import_(None, str(path))
    assert [one["sessionId"] for one in result["sessions"]] == ["a"]
    assert [one["message"] for one in result["warnings"]] == ["cannot be read: Input/output error"]

    async def full(_self: Any, _session: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(native_import.NativeIntake, "_merge", full)
    with pytest.raises(OSError, match="No space left"):
        await service.import_(None, str(path))
