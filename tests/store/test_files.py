"""One session's files on the disk, while others write them too: none of their writes is lost, and none of our temporary files is left."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import BadFile
from sessiond.formats import registry
from sessiond.formats.base import Write
from sessiond.fs import RealFileSystem
from sessiond.store.files import MARK, OutsideChange, StoreFiles


class Meddled(RealFileSystem):
    """Does something else before a call: `before[name]` is called with its arguments, once for each entry in the list."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, list[Any]] = {}

    def _meddle(self, name: str, *args: Any) -> None:
        waiting = self.before.get(name)
        if waiting:
            waiting.pop(0)(*args)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._meddle("read", path)
        return super().read(path, offset, size)

    def append(self, path: str, data: bytes, mode: int = 0o600):  # type: ignore[no-untyped-def]
        self._meddle("append", path)
        return super().append(path, data, mode)

    def link(self, source: str, target: str) -> None:
        self._meddle("link", source, target)
        super().link(source, target)

    def remove(self, path: str) -> None:
        self._meddle("remove", path)
        super().remove(path)

    def replace(self, source: str, target: str) -> None:
        self._meddle("replace", source, target)
        super().replace(source, target)


@pytest.fixture
def fs() -> Meddled:
    return Meddled()


@pytest.fixture
def files(fs: Meddled, tmp_path: Path) -> StoreFiles:
    return StoreFiles(fs, str(tmp_path), registry.get("jsonl"))


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if MARK in name]


def test_a_file_that_never_stands_still_is_not_read(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """Read repeatedly, and then given up; one that stops changing at last is read as one version."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x")

    def grow(target: str) -> None:
        with open(target, "ab") as file:
            file.write(b"y")

    fs.before["read"] = [grow] * 100
    with pytest.raises(OutsideChange):
        files.read("a")
    fs.before["read"] = [grow] * 3
    assert files.read("a").files["a.jsonl"] == path.read_bytes()


def test_reachable_tells_a_folder_from_what_is_none(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """Gone, a file in its place, or without its marker: unreachable."""
    assert files.reachable()
    assert not StoreFiles(fs, str(tmp_path / "no"), registry.get("jsonl")).reachable()
    (tmp_path / "file").write_bytes(b"")
    assert not StoreFiles(fs, str(tmp_path / "file"), registry.get("jsonl")).reachable()
    assert not StoreFiles(fs, str(tmp_path), registry.get("jsonl"), marker=".sessiond/store.json").reachable()
    assert files.find() == {}
    assert StoreFiles(fs, str(tmp_path / "no"), registry.get("jsonl")).find() == {}


def test_a_removal_is_a_step_like_others(files: StoreFiles, tmp_path: Path) -> None:
    """An existing file is removed durably; a missing one is not an error; another version is an outside change."""
    (tmp_path / "a.jsonl").write_bytes(b"x")
    prints = files.prints("a")
    assert files.perform([Write("a.jsonl", b"", "remove")], prints) == {}
    assert not (tmp_path / "a.jsonl").exists()
    assert files.perform([Write("a.jsonl", b"", "remove")], {}) == {}
    (tmp_path / "a.jsonl").write_bytes(b"y")
    with pytest.raises(OutsideChange):
        files.perform([Write("a.jsonl", b"", "remove")], prints)


def test_an_append_behind_somebody_elses(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """Both are there, and the returned version is not one that the file has: it is read again."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    prints = files.prints("a")
    fs.before["append"] = [lambda _: path.write_bytes(b"1\n2\n")]
    done = files.perform([Write("a.jsonl", b"3\n", "append")], prints)
    assert path.read_bytes() == b"1\n2\n3\n"
    assert done["a.jsonl"][1] == -1


def test_a_write_right_before_a_rename_is_put_back(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """Before we keep the old inode, and after: what somebody wrote is the file, and nothing of ours lies about."""
    path = tmp_path / "a.jsonl"
    for call in ("link", "replace"):
        path.write_bytes(b"old")
        prints = files.prints("a")
        fs.before[call] = [lambda *_: path.write_bytes(b"theirs")]
        with pytest.raises(OutsideChange):
            files.perform([Write("a.jsonl", b"ours", "replace")], prints)
        assert path.read_bytes() == b"theirs"
        assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("before", "after"), [(0o640, 0o640), (0o400, 0o400), (0o000, 0o600)])
def test_a_file_that_is_replaced_keeps_its_mode_but_can_be_read(
    files: StoreFiles, tmp_path: Path, before: int, after: int
) -> None:
    """Somebody takes every right away and gives it back in the middle of a save: to the old file, which goes."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old")
    path.chmod(before)
    seen = files.print_of("a.jsonl")
    assert seen is not None
    files.perform([Write("a.jsonl", b"new", "replace")], {"a.jsonl": seen})
    assert path.stat().st_mode & 0o7777 == after


@pytest.mark.parametrize("how", ["append", "replace"])
@pytest.mark.parametrize("there", [False, True])
def test_no_file_is_made_where_a_link_leads_that_has_just_come(
    files: StoreFiles, fs: Meddled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, there: bool
) -> None:
    """It leads nowhere, and takes the place of the file between a look and the write."""
    path, elsewhere = tmp_path / "a.jsonl", tmp_path / "elsewhere"
    if there:
        path.write_bytes(b"old")
    prints = files.prints("a")
    look = files.print_of

    def looked(relative: str) -> Any:
        found = look(relative)
        path.unlink(missing_ok=True)
        path.symlink_to(elsewhere)
        return found

    monkeypatch.setattr(files, "print_of", looked)
    with pytest.raises((OutsideChange, FileExistsError)):
        files.perform([Write("a.jsonl", b"ours", how)], prints)  # type: ignore[arg-type]
    assert not elsewhere.exists()


def test_a_file_that_somebody_makes_first_stays(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """A new session's file never displaces one that was made just now."""
    path = tmp_path / "a.jsonl"
    fs.before["link"] = [lambda *_: path.write_bytes(b"theirs")]
    with pytest.raises(OutsideChange):
        files.perform([Write("a.jsonl", b"ours", "replace")], {})
    assert path.read_bytes() == b"theirs"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("call", ["link", "replace"])
def test_a_rewrite_that_fails_leaves_the_old_file(files: StoreFiles, fs: Meddled, tmp_path: Path, call: str) -> None:
    """And no new one next to it; a displaced name that a crash would leave is settled at the next start."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old")
    prints = files.prints("a")

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    fs.before[call] = [fail]
    with pytest.raises(OSError, match="Input/output"):
        files.perform([Write("a.jsonl", b"ours", "replace")], prints)
    assert path.read_bytes() == b"old"
    files.clean()
    assert leftovers(tmp_path) == []
    assert path.read_bytes() == b"old"


def test_what_a_crash_left_is_settled(files: StoreFiles, tmp_path: Path) -> None:
    """A displaced version that nothing replaced comes back; one that was replaced, and temporary files, go."""
    (tmp_path / f".a.jsonl{MARK}1.old").write_bytes(b"displaced")
    (tmp_path / f".b.jsonl{MARK}2.old").write_bytes(b"displaced")
    (tmp_path / f".b.jsonl{MARK}2.new").write_bytes(b"half")
    (tmp_path / "b.jsonl").write_bytes(b"replaced")
    assert len(files.clean()) == 3
    assert (tmp_path / "a.jsonl").read_bytes() == b"displaced"
    assert (tmp_path / "b.jsonl").read_bytes() == b"replaced"
    assert leftovers(tmp_path) == []


def test_a_sessions_own_folder_goes_with_it(fs: Meddled, tmp_path: Path) -> None:
    """If nothing else is in it; a sidecar without its session goes too, one with it stays."""
    files = StoreFiles(fs, str(tmp_path), registry.get("sibyl"))
    for name, more in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.lisp").write_bytes(b"(x)")
        if more:
            (tmp_path / name / "picture.png").write_bytes(b"x")
        files.remove(name)
        assert (tmp_path / name).exists() == more
    native = StoreFiles(fs, str(tmp_path), registry.get("jsonl"))
    (tmp_path / ".sessiond").mkdir()
    for name in ("c", "d"):
        (tmp_path / ".sessiond" / f"{name}.json").write_bytes(b"{}")
    (tmp_path / "d.jsonl").write_bytes(b"")
    native.clear_leftovers("c")
    native.clear_leftovers("d")
    assert os.listdir(tmp_path / ".sessiond") == ["d.json"]


def test_a_file_that_may_not_be_read_is_a_bad_file(files: StoreFiles, fs: Meddled, tmp_path: Path) -> None:
    """With its path and what to look at."""
    (tmp_path / "a.jsonl").write_bytes(b"x")

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    fs.before["read"] = [refuse]
    with pytest.raises(BadFile) as told:
        files.read("a")
    assert told.value.data["path"] == str(tmp_path / "a.jsonl")


def test_an_older_version_that_could_not_be_removed_goes_with_its_file(
    files: StoreFiles, fs: Meddled, tmp_path: Path
) -> None:
    """When the session goes, nothing of it may come back at the next start; somebody may have tidied it away already."""

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a.jsonl"
    for tidied in (False, True):
        path.write_bytes(b"old")
        prints = files.prints("a")
        fs.before["remove"] = [fail]
        files.perform([Write("a.jsonl", b"ours", "replace")], prints)
        fs.before.clear()
        assert path.read_bytes() == b"ours"
        [left] = leftovers(tmp_path)
        if tidied:
            (tmp_path / left).unlink()
        files.remove("a")
        assert leftovers(tmp_path) == []
        assert not path.exists()
        files.clean()
        assert not path.exists()
