"""One bad thing costs only itself: a record, a file, a session or an importer that fails does not end an import."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import Unavailable
from sessiond.importers import registry
from sessiond.importers.lines import read_with
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine, open_source
from sessiond.importers.source_file import read_records
from sessiond.service import intake, native_import, sources
from sessiond.service.imported_session import New
from tests.service.test_intake import S, Served, served, transcript, wire_id
from tests.service.test_native_import import exported

__all__ = ["served"]


ODD: tuple[Any, ...] = (None, 5, "odd", [5], {"odd": 1}, True, [], {}, -1.5, [None], [[]], [{}], ["object", "null"])


def told(result: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    return [(os.path.basename(w["path"]), w["line"], w["message"]) for w in result["warnings"]]


class Choosy:
    """Fails on a record with `bad`."""

    def feed(self, line: int, record: dict[str, Any]) -> Iterator[Event]:
        yield Ignored("p", str(record["n"]), 1)
        if "bad" in record:
            raise TypeError("unhashable type: 'list'")
        yield Ignored("p", str(record["n"]), 2)

    def end(self) -> Iterator[Event]:
        return iter(())


def by_line(path: str, open_: Opener) -> Iterator[Event]:
    return read_with(Choosy(), path, open_)


def by_element(path: str, open_: Opener) -> Iterator[Event]:
    return read_records(lambda _: Choosy(), path, open_, "all")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (by_line, '{"n": 1}\n{"n": 2, "bad": 1}\n{"n": 3}\n'),
        (by_element, '{"all": [{"n": 1},\n {"n": 2, "bad": 1},\n {"n": 3}]}'),
    ],
)
def test_a_record_on_which_an_importer_fails_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any, text: str
) -> None:
    """The records before and after it are read, and it is told with its line; what the system says ends the reading."""
    path = tmp_path / "x.json"
    path.write_text(text)
    found = list(read(str(path), open_source))
    assert [(one.reason, one.count) for one in found if isinstance(one, Ignored)] == [
        ("1", 1), ("1", 2), ("2", 1), ("3", 1), ("3", 2),
    ]  # fmt: skip
    [skipped] = [one for one in found if isinstance(one, SkippedLine)]
    assert (skipped.line, skipped.failed) == (2, True)
    assert "the importer failed on this record: TypeError" in skipped.reason

    def unreadable(*_: Any) -> Iterator[Event]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Choosy, "feed", unreadable)
    with pytest.raises(OSError, match="Input/output"):
        list(read(str(path), open_source))


async def test_a_record_on_which_its_importer_fails_is_read_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of its file comes at once. The file does not count as read, so that the next version of ours brings the record."""
    file = transcript(tmp_path / "p", range(1, 4), S + "0")
    real = registry.BY_NAME["claude-code"]

    class Failing:
        name, experimental, recognise = real.name, False, real.recognise

        def read(self, path: str, open_: Any) -> Any:
            for number, event in enumerate(real.read(path, open_)):
                if number == 2:
                    yield SkippedLine(path, 2, "the importer failed on this record", failed=True)
                else:
                    yield event

    monkeypatch.setitem(registry.BY_NAME, "claude-code", Failing())
    assert told(await served.bring(tmp_path / "p")) == [(file.name, 2, "the importer failed on this record")]
    assert await served.texts(wire_id(file)) == ["text 1", "text 3"]
    monkeypatch.setitem(registry.BY_NAME, "claude-code", real)
    await served.bring(tmp_path / "p")
    assert sorted(await served.texts(wire_id(file))) == ["text 1", "text 2", "text 3"]


async def test_an_importer_that_fails_to_recognise_a_file_costs_that_file(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of other tools come, and it is told where nobody else knows the file."""
    good = transcript(tmp_path / "p", range(1, 4), S + "1")
    (tmp_path / "p" / "0.jsonl").write_text('{"nobody": 1}\n')

    def failing(path: str, head: bytes) -> int:
        raise TypeError("unhashable type: 'list'")

    monkeypatch.setattr(registry.BY_NAME["codex"], "recognise", failing)
    result = await served.bring(tmp_path / "p")
    assert [info["sessionId"] for info in result["sessions"]] == [wire_id(good)]
    [(name, line, message)] = told(result)
    assert (name, line) == ("0.jsonl", None)
    assert "the importer codex failed on it: TypeError" in message


@pytest.mark.parametrize("member", ["type", "role", "kind", "payload", "message", "sessionId", "$set"])
def test_odd_first_records_end_no_look_at_a_folder(tmp_path: Path, member: str) -> None:
    """Whatever the first record of a file has in a member that tools know their files by, no importer fails on it."""
    for n, odd in enumerate(ODD):
        for suffix in (".jsonl", ".json"):
            text = f'{{"{member}": {json.dumps(odd)}, "type_": "user_input planner_response"}}\n'
            (tmp_path / f"{n}{suffix}").write_text(text)
    assert [one for one in registry.walk(str(tmp_path)) if isinstance(one, SkippedLine)] == []


async def test_a_session_that_cannot_be_stored_costs_itself(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours in one session: the other files' sessions come, and its file is read again the next time."""
    bad = transcript(tmp_path / "p", range(1, 4), S + "0")
    good = transcript(tmp_path / "p", range(1, 4), S + "1")
    real = New.finish

    async def finish(self: New, mark: str | None) -> Any:
        if self.local_id == wire_id(bad):
            raise KeyError("a bug")
        return await real(self, mark)

    monkeypatch.setattr(New, "finish", finish)
    result = await served.bring(tmp_path / "p")
    assert [info["sessionId"] for info in result["sessions"]] == [wire_id(good)]
    assert told(result) == [(bad.name, None, f"{wire_id(bad)} cannot be imported: KeyError('a bug')")]
    monkeypatch.setattr(New, "finish", real)
    assert [info["sessionId"] for info in (await served.bring(tmp_path / "p"))["sessions"]] == [wire_id(bad)]


async def test_a_file_at_which_the_import_itself_fails_costs_itself(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = transcript(tmp_path / "p", range(1, 4), S + "0")
    good = transcript(tmp_path / "p", range(1, 4), S + "1")
    real = intake.Intake._passed_over

    async def passed_over(self: intake.Intake, path: str, mark: str) -> bool:
        if path == str(bad):
            raise KeyError("a bug")
        return await real(self, path, mark)

    monkeypatch.setattr(intake.Intake, "_passed_over", passed_over)
    result = await served.bring(tmp_path / "p")
    assert [info["sessionId"] for info in result["sessions"]] == [wire_id(good)]
    assert told(result) == [(bad.name, None, "cannot be imported: KeyError('a bug')")]


async def test_a_session_of_our_own_format_costs_itself(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in a format of ours, with one session on which its reader fails."""
    theirs = tmp_path / "theirs"
    for name in ("a", "b", "c"):
        exported(theirs / f"{name}.jsonl", name, ["one"])
    real = native_import.NativeIntake._merge

    async def merge(self: native_import.NativeIntake, session: Any) -> None:
        if session.local_id == "b":
            raise KeyError("a bug")
        await real(self, session)

    monkeypatch.setattr(native_import.NativeIntake, "_merge", merge)
    result = await served.bring(theirs, format="jsonl")
    assert [info["sessionId"] for info in result["sessions"]] == ["a", "c"]
    assert told(result) == [("b.jsonl", None, "cannot be imported: KeyError('a bug')")]


async def test_a_folder_that_cannot_be_listed_is_told(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files may be there: nobody must believe that all were imported."""
    transcript(tmp_path / "p" / "in", range(1, 4), S + "0")
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("/in"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = await served.bring(tmp_path / "p")
    assert told(result) == [("in", None, "cannot be listed: Too many open files")]


async def test_a_followed_file_that_the_system_does_not_open_is_not_forgotten(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While there is no file descriptor its follower is told so; then it comes."""
    file = transcript(tmp_path / "p", range(1, 4), S + "0")
    [store] = served.service.stores.values()
    followed = await served.service.transfer.followed(store)

    def no_descriptor(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    for module, function in ((registry, "_scores"), (registry.BY_NAME["claude-code"], "reader")):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, no_descriptor)
            with pytest.raises(Unavailable, match="Too many open files"):
                await followed.bring(str(file), "claude-code")
    brought = await followed.bring(str(file), "claude-code")
    assert [info.session_id for info in brought.sessions] == [wire_id(file)]
    assert await followed.behind([str(file)]) == []


async def test_a_followed_file_that_was_not_looked_at_is_behind(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was ever read or not; a file that is not there is not."""
    file = transcript(tmp_path / "p", range(1, 4), S + "0")
    [store] = served.service.stores.values()
    followed = await served.service.transfer.followed(store)

    def unreadable(_: str) -> str:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sources, "fingerprint", unreadable)
    assert await followed.behind([str(file), str(tmp_path / "gone")]) == [str(file)]
